"""Small blocks that every design is made of. Each takes and gives streams, and loses and doubles nothing."""

from watersmeet.hardware.blocks.buffer import Buffer
from watersmeet.hardware.blocks.fifo import Fifo
from watersmeet.hardware.blocks.fork import Fork
from watersmeet.hardware.blocks.merge import Merge
from watersmeet.hardware.blocks.queue import Queue
from watersmeet.hardware.blocks.shared import Library, Shared

__all__ = ["Buffer", "Fifo", "Fork", "Library", "Merge", "Queue", "Shared"]
