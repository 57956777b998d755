"""What a user may name as word vectors: a file, or a backbone whose embeddings serve as such."""

_ENDINGS = (".vec", ".txt", ".bin", ".npy", ".npz")


def is_vector_file(source: str) -> bool:
    """By its ending, so that a file that is missing is not mistaken for a backbone."""
    return source.split(",")[0].removesuffix(".gz").endswith(_ENDINGS)
