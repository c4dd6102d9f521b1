"""Slides from the saved lessons: `ddp-course slides 06`.

Rooms: `cuts` (text and code become short enough), `deck` (a lesson as slides), `page` (slides as one HTML file),
`reveal/` (reveal.js, shipped with its licence). Nothing is executed: what a slide shows is what the notebook has
saved, and what a speaker reads comes from the lesson, its questions and its tasks.
"""

from tools.slides.deck import Block, Deck, Look, Slide, make_deck, shortened_deck
from tools.slides.page import GENERATOR, deck_page

__all__ = ["GENERATOR", "Block", "Deck", "Look", "Slide", "deck_page", "make_deck", "shortened_deck"]
