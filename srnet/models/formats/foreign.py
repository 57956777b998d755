"""Models of others: Hugging Face checkpoints by folder or name, and folders with an ONNX graph and a tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from srnet.core.errors import UserError
from srnet.core.files import read_json_object
from srnet.core.lazy import transformers
from srnet.core.names import DOWNLOAD_VARIABLE, output_names
from srnet.core.sealed import LONGEST_TEXT
from srnet.models.backbones import fit_tokenizer, load_fine_tuned, load_language_model
from srnet.models.checkpoints import LARGEST_COUNT, folder_or_name, read_config, read_pretrained, read_tokenizer
from srnet.models.exported import TOKENIZER, reading_tokenizer
from srnet.models.formats.graphs import GRAPH, SEGMENTS, Graph, GraphModel, check_width, open_graph
from srnet.models.heads import use_words
from srnet.models.model import TorchModel
from srnet.tasks.answers.classes import CLASSES

CHECKPOINTS = ("model.safetensors", "model.safetensors.index.json")
_FIX = f"give a key of the store, a folder or a hub name; {DOWNLOAD_VARIABLE}=1 allows a download"
_CONFIG = "config.json"


def open_checkpoint(name: str) -> TorchModel:
    """A shipped backbone, a folder or a name on the Hub. It may have a classifier of its own, or label words."""
    config = read_config(name, "model", _FIX)
    labels = output_names(config.num_labels, config.id2label)
    words, problem = getattr(config, "label_words", None), ""
    if words is None:
        model, problem = load_fine_tuned(name, labels)
    else:
        model = load_language_model(name)
    tokenizer = read_tokenizer(name)
    fit_tokenizer(model, tokenizer, name)
    if words is not None:
        use_words(model, _checked_words(name, words, labels, model), per_token=False)
    folder = Path(folder_or_name(name))
    return TorchModel(
        name=name,
        kind="checkpoint",
        labels=labels,
        load_tokenizer=lambda: tokenizer,
        folder=folder if folder.is_dir() else None,
        not_classifier=problem,
        module=model.eval(),
    )


def _checked_words(name: str, ids: Any, labels: tuple[str, ...], model: Any) -> list[int]:
    """The tokens that stand for the labels in a merged model with label words (`srnet export --format merged`)."""
    known = range(len(model.get_output_embeddings().weight))
    if not isinstance(ids, list) or len(ids) != len(labels) or not all(type(i) is int and i in known for i in ids):
        raise UserError(f"{name}: label_words of config.json are not one token a label", "export the model again")
    return ids


# --- ONNX ----------------------------------------------------------------------------------------------------------


def open_foreign_graph(folder: Path) -> GraphModel:
    """A folder with a graph, its tokenizer, and a config.json with the names of the labels."""
    config = read_json_object(folder / _CONFIG)
    graph = open_graph(folder / GRAPH)
    labels = _labels(config, graph, folder)
    length = _number(config, "max_length", CLASSES.max_length)
    model = GraphModel(
        name=str(folder),
        kind="onnx",
        labels=labels,
        load_tokenizer=lambda: _tokenizer(folder, graph, _number(config, "pad_token_id", 0)),
        folder=folder,
        length=min(length, _number(config, "max_position_embeddings", length)),
        graph=check_width(graph, labels),
        count_words=lambda: len(model.tokenizer),
    )
    return model


def _labels(config: Mapping[str, Any], graph: Graph, folder: Path) -> tuple[str, ...]:
    """The names of the outputs; those without names are numbered."""
    named = config.get("id2label")
    if named is None and graph.width is not None and graph.width <= LARGEST_COUNT:
        return output_names(graph.width)
    if not isinstance(named, dict) or sorted(named) != sorted(map(str, range(len(named)))):
        raise UserError(f"{folder / _CONFIG}: id2label does not number the outputs", "restore the file")
    return tuple(str(named[str(index)]) for index in range(len(named)))


def _number(values: Mapping[str, Any], key: str, otherwise: int) -> int:
    value = values.get(key)
    return value if type(value) is int and 0 < value <= LONGEST_TEXT else otherwise


def _tokenizer(folder: Path, graph: Graph, pad_token_id: int) -> Any:
    with reading_tokenizer(folder):
        if (folder / "tokenizer_config.json").is_file():
            tokenizer = read_pretrained(transformers.AutoTokenizer, str(folder))
        else:
            tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / TOKENIZER))
            tokenizer.name_or_path = str(folder)
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.convert_ids_to_tokens(pad_token_id)
    if SEGMENTS in graph.inputs:  # tokenizer.json does not say whether they are read
        tokenizer.model_input_names = list(dict.fromkeys([*tokenizer.model_input_names, SEGMENTS]))
    return tokenizer
