"""What travels in FQP: words of 80 bits, the same for rows and instructions.

What stays true: a word's bits are those of ``fabric.encoding``, payload lowest, so encoded instructions go in as they are; of the header's
two spare bits one marks the ``last`` word of a row or instruction, so that who shares a wire need not know how long it is.

A row is segmented (4.3): a first word with its stream-ID and arrival number, then one word an attribute, which names it and may be NULL
(``mark``). So a stream can get more attributes while queries run, and who does not know one lets it pass. A result of a join has two
numbers: that of lane R low, that of lane S high. A first word with ``mark`` stands for a row that a selection has dropped: windows count
rows of the stream, also those that were not selected (ARCHITECTURE: The one rule), so a join has to hear of them.
"""

from amaranth.lib import data

BLOCK, NETWORK = 0, 1  # stream-IDs of instructions: for blocks, for the network
NO_LANE, LANE_R, LANE_S = 0, 1, 2  # as in the encoding; none: what an operator of the same block gives
TO_R, TO_S, TO_RESULT = 1, 2, 4  # ports by which results leave

WORD = data.StructLayout({"data": 64, "id": 12, "last": 1, "mark": 1, "q": 1, "s": 1})
ROW = data.StructLayout({"word": WORD, "lane": 2})  # what the processing unit takes
TERM = data.StructLayout({"attribute": 12, "condition": 3, "other": 12, "constant": 64})
VALUE = data.StructLayout({"value": 64, "null": 1})
