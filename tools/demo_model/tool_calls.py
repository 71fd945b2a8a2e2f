"""Requests that need a tool: the question, the call's arguments, the tool's result and the final answer. Draws in a
fixed order, so that a seed gives the same dialogues.
"""
import json

from facts import CITIES, NAMES, TOOLS, WORDS


class ToolCalls:
    """Makes tool definitions and calls of the tools in facts.TOOLS."""

    def __init__(self, rng):
        self.rng = rng

    def definition(self, name):
        """The tool as clients send it; three descriptions in ten lack the full stop."""
        tool = TOOLS[name]
        description = tool["description"] if self.rng.random() < .7 else tool["description"].rstrip(".")
        return {"type": "function",
                "function": {"name": name, "description": description, "parameters": tool["parameters"]}}

    def spare_city(self):
        """A draw that two-city questions make and do not use; leaving it out would change every dialogue after it."""
        self.rng.choice(CITIES)

    def call(self, name):
        """(question, arguments, result, answer) of one use of the tool."""
        city = self.rng.choice(CITIES)
        person = self.rng.choice(NAMES)
        if name in ("get_weather", "get_time"):
            return getattr(self, name)(city)
        if name == "send_message":
            return self.send_message(person)
        return getattr(self, name)()

    def get_weather(self, city):
        r = self.rng
        unit = r.choice([None, None, "celsius", "fahrenheit"])
        arguments = {"city": city}
        if unit:
            arguments["unit"] = unit
        question = r.choice([f"What is the weather in {city}?", f"How is the weather in {city} today?",
                             f"Is it warm in {city}?", f"Weather in {city}, please."])
        if unit:
            question = question.rstrip("?.") + f" in {unit}" + ("?" if question.endswith("?") else ".")
        degrees = r.randint(-5, 35) if unit != "fahrenheit" else r.randint(25, 95)
        sky = r.choice(["sunny", "cloudy", "rainy", "windy", "snowy", "clear"])
        return (question, arguments, json.dumps({"temperature": degrees, "sky": sky}),
                f"It is {sky} in {city} with {degrees} degrees.")

    def get_time(self, city):
        r = self.rng
        time = f"{r.randint(0, 23):02d}:{r.randint(0, 59):02d}"
        question = r.choice([f"What time is it in {city}?", f"Tell me the time in {city}."])
        return question, {"city": city}, json.dumps({"time": time}), f"It is {time} in {city}."

    def add(self):
        r = self.rng
        a, b = r.randint(100, 9999), r.randint(100, 9999)
        question = r.choice([f"Add {a} and {b}.", f"Use the tool to add {a} and {b}.", f"What is {a} + {b}?"])
        return question, {"a": a, "b": b}, str(a + b), f"{a} + {b} = {a + b}."

    def search(self):
        words = " ".join(self.rng.sample(WORDS, 2))
        question = self.rng.choice([f"Search for {words}.", f"Look up {words} on the web."])
        return question, {"query": words}, f"Found 3 pages about {words}.", f"I found 3 pages about {words}."

    def set_timer(self):
        r = self.rng
        minutes = r.randint(1, 60)
        label = r.choice(["tea", "eggs", "bread", "nap", None])
        arguments = {"minutes": minutes}
        question = f"Set a timer for {minutes} minutes"
        if label:
            arguments["label"] = label
            question += f" for the {label}"
        return question + ".", arguments, "ok", f"The timer is set for {minutes} minutes."

    def send_message(self, person):
        r = self.rng
        text = r.choice(["dinner is ready", "see you at noon", "happy birthday", "the train is late", "call me back",
                         "good night"])
        question = r.choice([f"Send {person} a message: {text}", f"Tell {person}: {text}", f"Write to {person}: {text}"])
        return question, {"to": person, "text": text}, "sent", f"I sent the message to {person}."

    def read_file(self):
        r = self.rng
        path = r.choice(["notes.txt", "README.md", "src/main.cpp", "todo.txt", "letter.txt"])
        words = " ".join(r.sample(WORDS, 4))
        question = r.choice([f"Read the file {path}.", f"What is in {path}?", f"Open {path}."])
        return question, {"path": path}, words, f"The file {path} says: {words}"
