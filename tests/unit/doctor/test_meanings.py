"""Which model a message of torch's speaks of."""

from dataclasses import replace

from realranks.doctor.meanings import model_with
from realranks.outcome.wrapped import NamedShape, WrappedModel


def test_a_model_that_was_replaced_by_its_like_does_not_hide_the_names():
    model = WrappedModel(
        type="Net", parameters=(NamedShape("weight", (2,)), NamedShape("bias", (1,))), number=2
    )
    assert model_with([model, model], [1]) == model
    assert model_with([model, replace(model, type="Other", number=1)], [1]) == model
    assert model_with([model, replace(model, frozen=(1,))], [1]) is None
    assert model_with([model, replace(model, parameters=(NamedShape("a", (2,)),) * 2)], [1]) is None
    assert model_with([model], [2]) is None
