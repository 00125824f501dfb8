"""What a key of LMCache stands for."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KeyLayout:
    """What one key of LMCache stands for: keys = chunks x `kv_ranks` (for a model with one group of KV layers).

    `bytes_per_key` is the size of its value, where that is known.
    """

    chunk_size_tokens: int
    kv_ranks: int
    bytes_per_key: int | None = None

    def tokens(self, keys: int) -> int | None:
        """The tokens that `keys` cover; None unless every rank has the same number of them."""
        return None if keys % self.kv_ranks else keys // self.kv_ranks * self.chunk_size_tokens

    def bytes_of(self, tokens: int) -> int | None:
        """The bytes that one rank moves for whole chunks of `tokens`; None where a key's size is not known."""
        if self.bytes_per_key is None:
            return None
        return tokens * self.bytes_per_key // self.chunk_size_tokens
