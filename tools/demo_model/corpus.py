"""Text for training: books and dialogues from files, the tokenizer made from them, and the stream of training ids."""
import json
import lzma
import random
from pathlib import Path

import numpy as np
import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from demo_network import VOCABULARY

# The family's control tokens; the last six are ordinary added tokens, the others special.
ADDED_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>",
                "<|video_pad|>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>",
                "</think>"]
SPECIAL_TOKENS = 7
PRETOKENIZER = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
                r"|\s*[\r\n]+|\s+(?!\S)|\s+")
SPARE_IDS = 64  # of the vocabulary, never given to a token: padding rows, as the large models have
BOOK_SEPARATOR = "\n\n\0\n\n"


def open_text(path):
    return lzma.open(path, "rt", encoding="utf-8") if str(path).endswith(".xz") else open(path, encoding="utf-8")


def load_books(path):
    """Books of a folder (a .txt file a book, in name order), or of one file with BOOK_SEPARATOR between them."""
    if Path(path).is_dir():
        return [file.read_text(encoding="utf-8") for file in sorted(Path(path).glob("*.txt"))]
    with open_text(path) as file:
        return file.read().split(BOOK_SEPARATOR)


def load_dialogues(path):
    """What gen_chat.py wrote, plain or compressed with xz."""
    with open_text(path) as file:
        return [json.loads(line) for line in file]


def make_tokenizer(books, dialogues):
    """A byte-level BPE tokenizer of the family's kind, with a small vocabulary."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(PRETOKENIZER), behavior="isolated", invert=False),
         pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    tokenizer.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY - SPARE_IDS - len(ADDED_TOKENS), special_tokens=[],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)

    def texts():
        yield from books
        for dialogue in random.Random(0).sample(dialogues, min(len(dialogues), 60000)):
            for token in ADDED_TOKENS:
                dialogue = dialogue.replace(token, "\n")
            yield dialogue

    tokenizer.train_from_iterator(texts(), trainer)
    tokenizer.add_special_tokens(
        [AddedToken(token, normalized=False, special=True) for token in ADDED_TOKENS[:SPECIAL_TOKENS]])
    tokenizer.add_tokens([AddedToken(token, normalized=False, special=False) for token in ADDED_TOKENS[SPECIAL_TOKENS:]])
    return tokenizer


def cut_books(books, rng):
    """Documents of 20 to 60 paragraphs each."""
    documents = []
    for book in books:
        paragraphs, at = book.split("\n\n"), 0
        while at < len(paragraphs):
            count = rng.randint(20, 60)
            documents.append("\n\n".join(paragraphs[at:at + count]))
            at += count
    return documents


def encode(tokenizer, texts):
    """An array of ids for every text, control tokens recognised."""
    encoded = []
    for at in range(0, len(texts), 20000):
        batch = tokenizer.encode_batch_fast(texts[at:at + 20000], add_special_tokens=False)
        encoded += [np.array(entry.ids, dtype=np.int16) for entry in batch]
    return encoded


def training_ids(tokenizer, books, dialogues):
    """One stream of ids: books, repeated until they are about as many tokens as the dialogues, and dialogues, shuffled,
    each after an end-of-text token."""
    rng = random.Random(0)
    book_ids = encode(tokenizer, cut_books(books, rng))
    chat_ids = encode(tokenizer, [dialogue.strip("\n") + "\n" for dialogue in dialogues])
    book_tokens, chat_tokens = sum(map(len, book_ids)), sum(map(len, chat_ids))
    repeats = max(1, round(chat_tokens * 0.9 / book_tokens)) if book_tokens else 1
    documents = book_ids * repeats + chat_ids
    rng.shuffle(documents)
    end = np.array([tokenizer.token_to_id("<|endoftext|>")], dtype=np.int16)
    stream = []
    for document in documents:
        stream += [end, document]
    ids = torch.from_numpy(np.concatenate(stream))
    print(f"tokens: books {book_tokens} x {repeats}, dialogues {chat_tokens}, in all {ids.numel()}", flush=True)
    return ids
