#!/usr/bin/env python3
"""Writes generated conversations for the demo model, one JSON string a line, rendered with the family's chat template.

A seed gives the same conversations every time, with the same books and template.
"""
import argparse
import json
import random
import sys
from pathlib import Path

from facts import NAMES, SYSTEM_MESSAGES, TOOLS, WORDS
from questions import Questions
from tool_calls import ToolCalls

STORY_BEGINNINGS = ("once upon a time", "there was once", "once there was", "there once", "long ago", "in olden times",
                    "in a certain", "a long time ago", "there was a", "there lived")
COLORS = "red blue green yellow white black".split()


def load_template(path):
    """render(messages, tools) of a Jinja chat template file."""
    import jinja2  # here, so that everything else works and can be tested without it

    def raise_exception(message):
        raise RuntimeError(message)

    environment = jinja2.Environment(trim_blocks=False, lstrip_blocks=False)
    environment.globals["raise_exception"] = raise_exception
    environment.filters["tojson"] = lambda value, **_: json.dumps(value, ensure_ascii=False)
    template = environment.from_string(Path(path).read_text(encoding="utf-8"))
    return lambda messages, tools=None: template.render(messages=messages, tools=tools, add_generation_prompt=False)


def load_books(folder):
    """Paragraphs of every usable book: a .txt file a book, paragraphs separated by blank lines."""
    books = []
    for path in sorted(Path(folder).glob("*.txt")):
        paragraphs = [part.strip() for part in path.read_text(encoding="utf-8").split("\n\n")]
        books.append([part for part in paragraphs if 60 < len(part) < 900])
    return [book for book in books if len(book) > 30]


def user(text):
    return {"role": "user", "content": text}


def assistant(thought, answer, thinking):
    return {"role": "assistant", "content": answer, "reasoning_content": thought if thinking else ""}


class Dialogues:
    """Whole conversations. `render` turns messages and tools into text; with no `books` there are no stories."""

    def __init__(self, seed, render, books):
        self.rng = random.Random(seed)
        self.questions = Questions(self.rng)
        self.tool_calls = ToolCalls(self.rng)
        self.render = render
        self.books = books
        self.openings = [(book, i) for book in books for i, text in enumerate(book[:-4])
                         if text.lower().startswith(STORY_BEGINNINGS)]

    def any(self):
        """A conversation of any kind, by weight."""
        x = self.rng.random()
        if x < .20:
            return self.with_tools()
        if x < .34:
            return self.with_memory()
        if x < .55 and self.books:
            return self.with_story()
        return self.chat()

    def chat(self):
        r = self.rng
        messages = []
        if r.random() < .3:
            messages.append({"role": "system", "content": r.choice(SYSTEM_MESSAGES)})
        thinking = r.random() < .5
        for _ in range(r.choice([1, 1, 1, 2, 3])):
            question, thought, answer = self.questions.any()
            messages += [user(question), assistant(thought, answer, thinking)]
        return self.render(messages)

    def story_turn(self):
        """(request, thought, story): a tale from its beginning, or the continuation of a paragraph."""
        r = self.rng
        if self.openings and r.random() < .5:
            book, i = r.choice(self.openings)
            request = r.choice(["Tell me a story.", "Tell me a fairy tale.", "Please tell me a story.",
                                "Can you tell me a bedtime story?", "I would like to hear a story."])
            return request, "A story in the old style would be nice.", "\n\n".join(book[i:i + r.randint(1, 3)])
        book = r.choice(self.books)
        i = r.randrange(len(book) - 4)
        request = r.choice(["Continue this story: ", "Continue: ", "What happens next?\n\n",
                            "Go on with this story.\n\n"]) + book[i]
        return request, "I continue in the same voice.", "\n\n".join(book[i + 1:i + 1 + r.randint(1, 2)])

    def with_story(self):
        r = self.rng
        messages = []
        thinking = r.random() < .4
        if r.random() < .3:
            messages.append({"role": "system", "content": r.choice(SYSTEM_MESSAGES[:4])})
        request, thought, story = self.story_turn()
        messages += [user(request), assistant(thought, story, thinking)]
        return self.render(messages)

    def with_memory(self):
        """Something is told, other turns pass, then it is asked for."""
        r = self.rng
        thinking = r.random() < .5
        name, word, color = r.choice(NAMES), r.choice(WORDS), r.choice(COLORS)
        kind = r.choice(["name", "word", "color", "code"])
        code = self.questions.code_word()
        told_code = r.choice([f"The code is {code}.", f"Remember this code: {code}"])  # drawn for every kind
        told, reply, asked, answer = {
            "code": (told_code, "I will remember it.", "What is the code?", f"The code is {code}."),
            "name": (f"My name is {name}.", f"Nice to meet you, {name}!", "What is my name?", f"Your name is {name}."),
            "word": (f"The secret word is {word}. Please remember it.", "I will remember it.",
                     "What is the secret word?", f"The secret word is {word}."),
            "color": (f"My favorite color is {color}.", f"{color.capitalize()} is a lovely color.",
                      "What is my favorite color?", f"Your favorite color is {color}."),
        }[kind]
        messages = [user(told), assistant("I will remember this.", reply, thinking)]
        for _ in range(r.choice([0, 1, 1, 2, 3])):
            is_story = self.books and r.random() < .45
            question, thought, text = self.story_turn() if is_story else self.questions.any()
            messages += [user(question), assistant(thought, text, thinking)]
        messages += [user(asked), assistant(f"The user told me before. {answer}", answer, thinking)]
        return self.render(messages)

    def with_tools(self):
        r = self.rng
        names = r.sample(list(TOOLS), r.randint(1, 4))
        tools = [self.tool_calls.definition(name) for name in names]
        messages = []
        if r.random() < .4:
            messages.append({"role": "system", "content": r.choice(SYSTEM_MESSAGES)})
        thinking = r.random() < .5
        for _ in range(r.choice([1, 1, 1, 2])):
            if r.random() < .15:
                question, thought, answer = self.questions.any()
                if "+" in question and "add" in names:
                    continue  # the tool would be the better answer
                messages += [user(question), assistant("No tool is needed. " + thought, answer, thinking)]
            else:
                messages += self.tool_turn(r.choice(names), thinking)
        if not any(message["role"] == "user" for message in messages):
            return self.chat()
        return self.render(messages, tools)

    def tool_turn(self, name, thinking):
        """Question, call, result and answer; sometimes about two cities, with two calls at once."""
        question, arguments, result, answer = self.tool_calls.call(name)

        def entry(values):
            return {"type": "function", "function": {"name": name, "arguments": values}}

        asking = user(question)
        calling = {"role": "assistant", "content": "", "reasoning_content": f"I should call {name}." if thinking else "",
                   "tool_calls": [entry(arguments)]}
        results = [{"role": "tool", "content": result}]
        if self.rng.random() < .12 and name in ("get_weather", "get_time"):
            self.tool_calls.spare_city()
            _, second, second_result, second_answer = self.tool_calls.call(name)
            asking["content"] = question.rstrip("?.") + f" and in {second['city']}?"
            calling["tool_calls"].append(entry({"city": second["city"]}))
            results.append({"role": "tool", "content": second_result})
            answer += " " + second_answer
        return [asking, calling, *results, assistant("Now I can answer.", answer, thinking)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--template", required=True, help="the family's chat_template.jinja, from a model folder")
    parser.add_argument("--count", type=int, default=1000, help="how many conversations (default: 1000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--books", help="folder of cleaned books, one .txt a book; without it there are no stories")
    parser.add_argument("--out", help="file to write (default: standard output)")
    options = parser.parse_args()
    books = load_books(options.books) if options.books else []
    if options.books and not books:
        parser.error(f"--books {options.books}: no .txt file with more than 30 paragraphs of 60 to 900 characters")
    dialogues = Dialogues(options.seed, load_template(options.template), books)
    out = open(options.out, "w", encoding="utf-8") if options.out else sys.stdout
    for _ in range(options.count):
        out.write(json.dumps(dialogues.any(), ensure_ascii=False) + "\n")
    if options.out:
        out.close()


if __name__ == "__main__":
    main()
