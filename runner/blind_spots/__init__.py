"""The blind-spot audit: what changed on the whole disk, and in the whole registry, outside of what a contract observes.

It does not judge: a contract's observables do. It shows where a contract does not look.
"""
