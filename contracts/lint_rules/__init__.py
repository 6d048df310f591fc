"""The rules of lint, by what they look at; ``contracts/lint.py`` applies them."""
