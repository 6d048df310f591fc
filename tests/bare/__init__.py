"""What a new user does, done on a bare Debian that is made for it: see ``__main__``."""
