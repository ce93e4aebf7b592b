"""The checker of annotations in tests, which reads them as static checkers do."""

from beartype import BeartypeConf, beartype

# An int may stand where a float is declared (PEP 484, the numeric tower).
checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
