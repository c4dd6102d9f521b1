"""The learner's copy of the course: where it is, what is in it, and how a later version of the course comes into it.

`ddp-course lab` opens this copy, never the course's own notebooks: these are executed, and a saved output gives the
answer to a question away. The copy holds lessons and exercises without outputs.

Rooms: `course` (where the course itself is, and what a learner is given of it), `place` (which folder is the copy),
`written` (what a person has written in a file, outputs apart), `ledger` (what the course has put into the copy so far),
`plan` (what an update has to do: pure), `update` (doing it), `news` (what lies beside changed notebooks). Imports
nothing else of the course, and nothing beyond the standard library.

Promise: what a learner has written is never overwritten or removed, however an update ends. A notebook that is replaced
though it holds outputs is kept in `kept/`.
"""
