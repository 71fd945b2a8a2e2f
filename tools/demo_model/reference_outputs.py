"""Reference outputs of a network, for tests to compare with: fp32, Hugging Face transformers, dequantised weights."""
import json

import torch
from safetensors.torch import save_file


def greedy(lm, ids, steps, device):
    """(ids, margins) of `steps` greedy tokens, without a cache: every step reads the whole sequence again."""
    sequence, chosen, margins = list(ids), [], []
    for _ in range(steps):
        hidden = lm.model(input_ids=torch.tensor([sequence], device=device), use_cache=False).last_hidden_state[0, -1]
        top = lm.lm_head(hidden).float().topk(2)
        chosen.append(int(top.indices[0]))
        margins.append(float(top.values[0] - top.values[1]))
        sequence.append(chosen[-1])
    return chosen, margins


def mtp_drafts(net, sequence, device):
    """For every position t but the last: the MTP head's best guess of token t + 2."""
    lm, ids = net.lm, torch.tensor([sequence], device=device)
    hidden = lm.model(input_ids=ids, use_cache=False).last_hidden_state
    count = len(sequence) - 1
    drafts = net.mtp.float()(hidden[:, :count], lm.model.embed_tokens(ids[:, 1:]), net.positions(hidden[:, :count]))
    return lm.lm_head(drafts)[0].float().argmax(-1).tolist()


@torch.no_grad()
def write_reference(net, prompts, folder, device, hidden_for=0, steps=48):
    """Writes reference.json and reference.safetensors for prompts of ids; returns the list of reference.json.

    hidden_for: the prompt whose residual stream is kept, layer by layer.
    """
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    net.eval()
    net.use_dense_experts(False)
    lm = net.lm.float()
    entries, tensors = [], {}
    for number, ids in enumerate(prompts):
        output = lm.model(input_ids=torch.tensor([ids], device=device), use_cache=False, output_hidden_states=True)
        logits = lm.lm_head(output.last_hidden_state)[0].float()
        logprobs = logits.log_softmax(-1)
        nll = [-logprobs[t, ids[t + 1]].item() for t in range(len(ids) - 1)]
        tensors[f"{number}.logits_last"] = logits[-1].contiguous().cpu()
        if number == hidden_for:
            for layer, hidden in enumerate(output.hidden_states):
                tensors[f"{number}.hidden.{layer}"] = hidden[0].float().contiguous().cpu()
        chosen, margins = greedy(lm, ids, steps, device)
        sequence = list(ids) + chosen
        drafts = mtp_drafts(net, sequence, device)
        last = len(sequence) - 1
        accepted = sum(int(drafts[t] == sequence[t + 2]) for t in range(len(ids) - 1, last - 1))
        entries.append({"prompt_ids": ids, "greedy_ids": chosen, "greedy_margins": margins,
                        "mean_nll": sum(nll) / max(1, len(nll)), "nll": nll, "mtp_draft_ids": drafts,
                        "mtp_acceptance": accepted / max(1, last - len(ids))})
    with open(f"{folder}/reference.json", "w", encoding="utf-8") as file:
        json.dump(entries, file)
    save_file(tensors, f"{folder}/reference.safetensors")
    return entries
