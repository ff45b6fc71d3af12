"""The flexible query processor: OP-Blocks in chains, programmed by instructions that come with the data (thesis, chapter 4)."""

from watersmeet.hardware.fqp.designs import DESIGNS
from watersmeet.hardware.fqp.figures import FIGURES
from watersmeet.hardware.fqp.running import Answer, run

__all__ = ["DESIGNS", "FIGURES", "Answer", "run"]
