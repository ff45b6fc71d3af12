"""Key codes: every value that drives an index becomes an int64 in the value's SQL order, or a hash of it.

``common_domain`` finds how two column types compare; its ``codes`` turn columns into keys, and its ``bounds``
turn the keys of one stream into inclusive bounds on the keys of the other. Indexes see nothing but these
integers.
"""

from watersmeet.codes.common import common_domain
from watersmeet.codes.domain import NULL_CODE, Domain
from watersmeet.codes.interval import Form, Interval, Offset, Side
from watersmeet.codes.mix import mix

__all__ = ["NULL_CODE", "Domain", "Form", "Interval", "Offset", "Side", "common_domain", "mix"]
