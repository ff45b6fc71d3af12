"""The page: a processor at work, and a designer of fabrics, in a browser.

What stays true: the page knows nothing but the contract (``watersmeet.contract``): plans, numbers, fabrics and results as plain data. It
takes SQL and JSON that are checked, and no code. Whatever the rate of the streams, a browser gets at most ten digests a second, and making
them takes at most a hundredth of the time: watching costs a processor less than two percent.
"""
