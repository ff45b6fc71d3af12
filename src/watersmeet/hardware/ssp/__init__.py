"""The simplex stream processor (thesis 7): bricks of units on a network of switches, programmed by a fabric's instructions.

``running.run(fabric, queries, rows)`` runs queries on the hardware of any fabric of GSwitches and bricks.
"""

from watersmeet.hardware.ssp.designs import DESIGNS
from watersmeet.hardware.ssp.figures import FIGURES

__all__ = ["DESIGNS", "FIGURES"]
