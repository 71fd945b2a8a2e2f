#!/usr/bin/env python3
"""Trains the demo model and writes it as an MLX 4-bit checkpoint with reference outputs; or writes random small models.

train    the model of models/demo
smoke    the same on a small part of the corpus, to see that everything runs
golden   random models with odd shapes for tests (tests/golden/mini is one of them)
"""
import argparse
import json
import math
import os
import time

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

import corpus
import mlx_format
from demo_network import Network, demo_config, layer_types
from reference_outputs import write_reference

TOKENS = 1024          # context of a training row
PEAK_RATE = 2e-3       # learning rate
WARM_UP_STEPS = 150
DECAY_FROM = 0.3       # share of the time after which the learning rate falls
QUANTISED_FROM = 0.55  # share of the time after which forward passes see quantised weights
HELD_OUT_BOOKS = 2
HELD_OUT_DIALOGUES = 400

GOLDEN_MODELS = {
    "mini": (7, dict(vocab_size=320, hidden_size=128, num_hidden_layers=4, layer_types=layer_types(4),
                     num_attention_heads=4, num_key_value_heads=1, num_experts=8, num_experts_per_tok=2,
                     linear_num_key_heads=1, linear_num_value_heads=2)),
    "held": (99, dict(vocab_size=448, hidden_size=192, num_hidden_layers=8, num_attention_heads=6, num_key_value_heads=2,
                      num_experts=16, num_experts_per_tok=4, moe_intermediate_size=128,
                      shared_expert_intermediate_size=64, linear_num_key_heads=2, linear_num_value_heads=6)),
}
GOLDEN_PROMPTS = (1, 3, 17, 64, 65, 130, 300)  # tokens


def balance_loss(router_logits, experts, per_token):
    """1 when all experts are used alike, more when they are not."""
    total = 0.
    for logits in router_logits:
        probabilities = logits.float().softmax(-1)
        chosen = torch.zeros_like(probabilities).scatter(1, probabilities.topk(per_token, -1).indices, 1.0)
        total = total + experts * (chosen.mean(0) / per_token * probabilities.mean(0)).sum()
    return total / len(router_logits)


class Batches:
    """Rows of TOKENS + 2 ids in random order; after a pass over the data the cuts move."""

    def __init__(self, ids, rows, device):
        self.ids, self.rows, self.device = ids, rows, device
        self.count = ids.numel() // TOKENS
        self.generator = torch.Generator().manual_seed(1)
        self.order = torch.randperm(self.count, generator=self.generator)
        self.at, self.offset = 0, 0

    def next(self):
        if self.at + self.rows > self.count - 1:
            self.order = torch.randperm(self.count - 1, generator=self.generator)
            self.at, self.offset = 0, int(torch.randint(0, TOKENS, (1,), generator=self.generator))
        chosen = self.order[self.at:self.at + self.rows].tolist()
        self.at += self.rows
        starts = [i * TOKENS + self.offset for i in chosen]
        rows = [self.ids[s:s + TOKENS + 2] for s in starts if s + TOKENS + 2 <= self.ids.numel()]
        return torch.stack(rows).to(self.device).long()


def learning_rate(step, share):
    """Warm-up by steps, then flat, then half a cosine down to 2 % at the end of the time."""
    fall = 1.0 if share < DECAY_FROM else \
        0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * (share - DECAY_FROM) / (1 - DECAY_FROM)))
    return PEAK_RATE * min(1, (step + 1) / WARM_UP_STEPS) * fall


def losses(net, config, x, router_logits):
    """(next token, MTP, expert balance) of a batch [rows, TOKENS + 2]."""
    lm = net.lm
    hidden = lm.model(input_ids=x[:, :TOKENS], use_cache=False).last_hidden_state
    logits = lm.lm_head(hidden)
    token_loss = F.cross_entropy(logits.float().view(-1, logits.shape[-1]), x[:, 1:TOKENS + 1].reshape(-1))
    drafts = lm.lm_head(net.mtp(hidden, lm.model.embed_tokens(x[:, 1:TOKENS + 1]), net.positions(hidden)))
    mtp_loss = F.cross_entropy(drafts.float().view(-1, drafts.shape[-1]), x[:, 2:TOKENS + 2].reshape(-1))
    return token_loss, mtp_loss, balance_loss(router_logits, config.num_experts, config.num_experts_per_tok)


def train(net, config, ids, seconds, rows, device):
    """Trains for a time, then quantises the network. The last part of the time is quantisation-aware: forward and
    backward passes use quantised weights, and the step is applied to the unquantised ones."""
    net.train()
    net.use_dense_experts()
    groups = [{"params": [p for p in net.parameters() if p.dim() >= 2], "weight_decay": 0.1},
              {"params": [p for p in net.parameters() if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=PEAK_RATE, betas=(0.9, 0.95), fused=True)
    stored = [(p, mlx_format.bits_of(name, p)) for name, p in net.named_parameters() if mlx_format.bits_of(name, p)]
    router_logits = []
    hooks = [router.register_forward_hook(lambda _, __, output: router_logits.append(output[0]))
             for router in net.routers()]
    batches, step, start = Batches(ids, rows, device), 0, time.time()
    while (share := (time.time() - start) / seconds) < 1:
        rate = learning_rate(step, share)
        for group in optimizer.param_groups:
            group["lr"] = rate
        x = batches.next()
        kept = []
        if share > QUANTISED_FROM:
            with torch.no_grad():
                kept = [p.data.clone() for p, _ in stored]
                for p, bits in stored:
                    p.data = mlx_format.fake_quantised(p.data, bits)
        router_logits.clear()
        with torch.autocast(device, torch.bfloat16):
            token_loss, mtp_loss, balance = losses(net, config, x, router_logits)
            total = token_loss + 0.2 * mtp_loss + 0.01 * balance
        total.backward()
        for (p, _), original in zip(stored, kept):
            p.data = original
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 50 == 0 or step < 3:
            elapsed = time.time() - start
            print(f"step {step} t {elapsed:.1f} loss {token_loss.item():.3f} mtp {mtp_loss.item():.3f} "
                  f"balance {balance.item():.3f} lr {rate:.2e} "
                  f"tok/s {(step + 1) * rows * TOKENS / elapsed:.0f}", flush=True)
        step += 1
    print("steps", step)
    for hook in hooks:
        hook.remove()
    mlx_format.quantise_network(net)


def reference_prompts(held_book, held_dialogues):
    """Texts of the reference outputs: a story, chat with and without thinking, tool calls, a book never seen."""
    def turn(question, thinking):
        return (f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n<think>\n"
                + ("" if thinking else "\n</think>\n\n"))

    with_tools = [text.split("<|im_start|>assistant")[0] + "<|im_start|>assistant\n<think>\n"
                  for text in held_dialogues if "<tools>" in text][:2]
    return ["Once upon a time", turn("What is the capital of France?", False), turn("What is 23 + 45?", True),
            turn("How do you say hello in Japanese?", False), turn("Who are you?", False),
            turn("Tell me a story.", False), *with_tools, held_book[4000:8000]]


def train_stage(options):
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    books, dialogues = corpus.load_books(options.books), corpus.load_dialogues(options.chat)
    tokenizer = corpus.make_tokenizer(books, dialogues)
    held_books, books = books[-HELD_OUT_BOOKS:], books[:-HELD_OUT_BOOKS]
    held_dialogues, dialogues = dialogues[-HELD_OUT_DIALOGUES:], dialogues[:-HELD_OUT_DIALOGUES]
    smoke = options.stage == "smoke"
    if smoke:
        books, dialogues = books[:8], dialogues[:8000]
    ids = corpus.training_ids(tokenizer, books, dialogues)
    config = demo_config()
    torch.manual_seed(0)
    net = Network(config).to(options.device)
    print(f"parameters {sum(p.numel() for p in net.parameters()) / 1e6:.2f} M", flush=True)
    train(net, config, ids, options.seconds, 32 if smoke else 64, options.device)
    folder = os.path.join(options.out, "demo")
    print("bytes", mlx_format.export(net, config, folder, tokenizer, shards=2))
    prompts = reference_prompts(held_books[0], held_dialogues)
    encoded = [tokenizer.encode(text, add_special_tokens=False).ids for text in prompts]
    for text, entry in zip(prompts, write_reference(net, encoded, folder, options.device, hidden_for=0, steps=64)):
        print(f"{text[-80:]!r}\n  {tokenizer.decode(entry['greedy_ids'], skip_special_tokens=False)!r}\n"
              f"  nll {entry['mean_nll']:.3f}, MTP {entry['mtp_acceptance']:.2f}, "
              f"smallest margin {min(entry['greedy_margins']):.4f}", flush=True)


def write_original_layout(net, config_file, folder):
    """The weights of a quantised network as an unquantised Hugging Face bf16 checkpoint."""
    tensors = {("model.language_model." + key[len("model."):] if key.startswith("model.") else key): value
               for key, value in net.lm.state_dict().items()}
    tensors.update({"mtp." + key: value for key, value in net.mtp.state_dict().items()})
    os.makedirs(folder)
    save_file({key: value.bfloat16().contiguous().cpu() for key, value in tensors.items()},
              f"{folder}/model.safetensors", metadata={"format": "pt"})
    with open(config_file, encoding="utf-8") as file:
        config = json.load(file)
    del config["quantization"], config["quantization_config"]
    mlx_format.write_json(config, f"{folder}/config.json", 2)


def golden_stage(options):
    for name, (seed, shape) in GOLDEN_MODELS.items():
        torch.manual_seed(seed)
        config = demo_config(**shape)
        net = Network(config).to(options.device)
        with torch.no_grad():  # larger than at initialisation, so that every part matters in the outputs
            for parameter_name, parameter in net.named_parameters():
                if parameter.dim() >= 2 and "conv1d" not in parameter_name:
                    parameter.mul_(3.0)
                elif "norm" in parameter_name and "linear_attn.norm" not in parameter_name:
                    parameter.normal_(0, 0.2)
        mlx_format.quantise_network(net)
        folder = os.path.join(options.out, name)
        total = mlx_format.export(net, config, folder, shards=1)
        generator = torch.Generator().manual_seed(5)
        prompts = [torch.randint(3, config.vocab_size, (tokens,), generator=generator).tolist()
                   for tokens in GOLDEN_PROMPTS]
        entries = write_reference(net, prompts, folder, options.device, hidden_for=2, steps=16)
        if name == "mini":
            write_original_layout(net, f"{folder}/config.json", os.path.join(options.out, "mini-hf"))
        print(name, total, [entry["greedy_ids"][:6] for entry in entries], flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=["train", "smoke", "golden"])
    parser.add_argument("--out", required=True, help="folder for the model folders")
    parser.add_argument("--books", help="folder of .txt files, or one file (.txt or .txt.xz) with all books")
    parser.add_argument("--chat", help="dialogues of gen_chat.py, .jsonl or .jsonl.xz")
    parser.add_argument("--seconds", type=float, default=60, help="training time (default: 60)")
    parser.add_argument("--device", default="cuda", help="torch device (default: cuda)")
    options = parser.parse_args()
    if options.stage != "golden" and not (options.books and options.chat):
        parser.error(f"{options.stage} needs --books and --chat")
    train_stage(options) if options.stage != "golden" else golden_stage(options)


if __name__ == "__main__":
    main()
