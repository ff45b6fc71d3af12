"""Other ways to place the same query: what does not change its results, and may fit where the query as it is does not."""

from __future__ import annotations

from dataclasses import replace

from watersmeet.fabric.operator import Attribute, Code, Flow, Need, Operator, Stream, Term


def composed(need: Need) -> Need:
    """Without the last projections: where results are composed, what is selected is computed there."""
    roots = [
        root.inputs[0] if isinstance(root, Operator) and root.kind == "projection" else root
        for root in need.roots
    ]
    return Need(need.query, tuple(roots))


def repeated(need: Need) -> Need:
    """With selections of its own, where it shares them with others whose blocks are elsewhere (4.2)."""
    return Need(need.query, tuple(_repeated(root, need.query) for root in need.roots))


def _repeated(flow: Flow, query: str) -> Flow:
    if not isinstance(flow, Operator):
        return flow
    inputs = tuple(_repeated(one, query) for one in flow.inputs)
    return replace(flow, inputs=inputs, copy=query if flow.kind == "selection" else flow.copy)


def folded(need: Need) -> Need:
    """With the selections before inner joins as parts of the joins' conditions: where there is no block before the join."""
    return Need(need.query, tuple(_folded(root) for root in need.roots))


def _folded(flow: Flow) -> Flow:
    if not isinstance(flow, Operator):
        return flow
    op = replace(flow, inputs=tuple(_folded(one) for one in flow.inputs))
    if op.kind != "join" or op.how != "inner":
        return op
    terms, code, inputs = list(op.terms), list(op.code), []
    for leaf, below in zip(op.leaves, op.inputs, strict=True):
        while isinstance(below, Operator) and below.kind == "selection":
            own = below.inputs[0]
            name = _source(own)
            terms += [_term(term, name, leaf) for term in below.terms]
            code += [_code(one, name, leaf) for one in below.code]
            below = own
        inputs.append(below)
    return replace(op, terms=tuple(terms), code=tuple(code), inputs=tuple(inputs))


def _source(flow: Flow) -> str:
    """The stream below some selections, by which these name their columns; "" for what an operator of another kind gives."""
    while isinstance(flow, Operator) and flow.kind == "selection":
        flow = flow.inputs[0]
    return flow.name if isinstance(flow, Stream) else ""


def _term(term: Term, name: str, leaf: str) -> Term:
    right = None if term.right is None else _attribute(term.right, name, leaf)
    return replace(term, left=_attribute(term.left, name, leaf), right=right)


def _code(code: Code, name: str, leaf: str) -> Code:
    return tuple(
        token
        if token.attribute is None
        else replace(token, attribute=_attribute(token.attribute, name, leaf))
        for token in code
    )


def _attribute(attribute: Attribute, name: str, leaf: str) -> Attribute:
    return replace(attribute, leaf=leaf) if attribute.leaf == name else attribute
