"""Proof that a contract has teeth: bad states made from one good run, each of which the contract must reject. Pure, no I/O."""

from validators.mutate.assess import Assessment, Decided, NotGolden, Survivor, assess
from validators.mutate.catalog import mutants
from validators.mutate.golden import Flaw, Golden, Mutant

__all__ = ["Assessment", "Decided", "Flaw", "Golden", "Mutant", "NotGolden", "Survivor", "assess", "mutants"]
