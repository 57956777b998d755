"""ONNX graphs of others: small classifiers whose logits can be computed by hand, declared in any way."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Axis = int | str | None


@dataclass(frozen=True)
class Made:
    """A graph that adds a vector for every token of a text: its declarations and its faults."""

    table: np.ndarray
    """(tokens of the vocabulary, labels)"""
    inputs: dict[str, str] = field(default_factory=lambda: {"input_ids": "INT64", "attention_mask": "INT64"})
    """Names and types. A mask is read, whatever else is named is not."""
    rows: Axis = "rows"
    length: Axis = "tokens"
    output: str = "FLOAT"
    sums: tuple[int, ...] = (1,)
    """The axes that are summed over: (1,) for texts, () for tokens, all for a scalar."""
    declared: tuple[Axis, ...] | None = ("rows", 2)
    """The shape of the output, as it is declared; None leaves it out."""
    others: tuple[str, ...] = ()
    """Names of outputs before the logits."""
    allocates: int = 0
    """Numbers of a tensor that is made on the way."""
    external: str | None = None
    """Where the table is."""
    operator: str = "Identity"
    """The last one."""
    domain: str = ""

    def write(self, path: Path) -> None:
        from onnx import TensorProto, helper

        values = [helper.make_tensor_value_info(n, _type(t), [self.rows, self.length]) for n, t in self.inputs.items()]
        outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in self.others]
        outputs.append(helper.make_tensor_value_info("logits", _type(self.output), self.declared))
        graph = helper.make_graph(self._nodes(), "adds", values, outputs, self._constants(path))
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("elsewhere", 1)]
        path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString())

    def _nodes(self) -> list[Any]:
        from onnx import TensorProto, helper

        steps = [
            ("Cast", ["input_ids"], ["whole"], {"to": TensorProto.INT64}),
            ("Gather", ["table", "whole"], ["vectors"], {}),
        ]
        seen = "vectors"
        if "attention_mask" in self.inputs:
            steps += [
                ("Cast", ["attention_mask"], ["mask"], {"to": TensorProto.FLOAT}),
                ("Unsqueeze", ["mask", "last"], ["column"], {}),
                ("Mul", ["vectors", "column"], ["seen"], {}),
            ]
            seen = "seen"
        if self.allocates:
            steps += [
                ("ConstantOfShape", ["size"], ["large"], {}),
                ("ReduceSum", ["large"], ["zero"], {"keepdims": 0}),
                ("Add", [seen, "zero"], ["more"], {}),
            ]
            seen = "more"
        if self.sums:
            steps.append(("ReduceSum", [seen, "axes"], ["sums"], {"keepdims": 0}))
            seen = "sums"
        steps += [("Identity", ["vectors"], [name], {}) for name in self.others]
        steps += [
            ("Cast", [seen], ["cast"], {"to": _type(self.output)}),
            (self.operator, ["cast"], ["logits"], {"domain": self.domain} if self.domain else {}),
        ]
        return [helper.make_node(kind, read, given, **more) for kind, read, given, more in steps]

    def _constants(self, path: Path) -> list[Any]:
        from onnx import TensorProto, numpy_helper

        table = numpy_helper.from_array(self.table, "table")
        if self.external is not None:
            (path.parent / "table.bin").write_bytes(table.raw_data)
            table.ClearField("raw_data")
            table.data_location = TensorProto.EXTERNAL
            table.external_data.add(key="location", value=self.external)
        numbers = {"last": [2], "axes": list(self.sums) or [0], "size": [self.allocates]}
        return [table, *(numpy_helper.from_array(np.array(value), name) for name, value in numbers.items())]


def _type(name: str) -> int:
    from onnx import TensorProto

    return int(getattr(TensorProto, name))
