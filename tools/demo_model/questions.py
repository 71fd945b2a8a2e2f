"""Questions without tools, each with a short thought and an answer. Draws only from the random generator it is given, in
a fixed order, so that a seed gives the same dialogues.
"""
import json

from facts import (ABOUT, CAPITALS, CITIES, DAYS, EMOJIS, FACTS, GREETINGS, MONTHS, NAMES, NUMBER_WORDS, OPPOSITES,
                   SOUNDS, WORDS)


class Questions:
    """Every method named after a topic returns (question, thought, answer)."""

    def __init__(self, rng):
        self.rng = rng
        one = [self.opposite, self.sound, self.greeting, self.emoji, self.neighbour, self.spelling, self.letters,
               self.counting]
        self.topics = ([self.arithmetic] * 6 + [self.capital] * 4 + [self.fact] * 4 + [self.echo] * 4 + one
                       + [self.json_object] * 2 + [self.sorting, self.repetition, self.extreme, self.number_word]
                       + [self.about] * 4)

    def any(self):
        """A question of any topic, by weight."""
        return self.rng.choice(self.topics)()

    def arithmetic(self):
        r = self.rng
        op = r.choice(["+", "-", "*"])
        limit = 12 if op == "*" else 99
        a, b = r.randint(0, limit), r.randint(0, limit)
        if op == "-" and b > a:
            a, b = b, a
        result = {"+": a + b, "-": a - b, "*": a * b}[op]
        word = {"+": "plus", "-": "minus", "*": "times"}[op]
        times = r.choice(["*", "x"])  # drawn for every sum, used for products
        sign = times if op == "*" else op
        question = r.choice([f"What is {a} {sign} {b}?", f"What is {a} {word} {b}?", f"{a} {sign} {b} =",
                             f"Compute {a} {sign} {b}.", f"How much is {a} {word} {b}?"])
        tens_a, tens_b = a // 10 * 10, b // 10 * 10
        if op == "+":
            thought = (f"Tens: {tens_a} + {tens_b} = {tens_a + tens_b}. Ones: {a % 10} + {b % 10} = {a % 10 + b % 10}. "
                       f"Together: {result}.")
        elif op == "-":
            thought = f"Start at {a}. Take away {tens_b}: {a - tens_b}. Take away {b % 10}: {result}."
        else:
            thought = f"{a} groups of {b} make {result}."
        return question, thought, r.choice([f"{a} {sign} {b} = {result}.", f"The answer is {result}."])

    def capital(self):
        r = self.rng
        country = r.choice(list(CAPITALS))
        city = CAPITALS[country]
        if r.random() < 0.75:
            return (r.choice([f"What is the capital of {country}?", f"Which city is the capital of {country}?",
                              f"Capital of {country}?", f"Tell me the capital of {country}."]),
                    f"The question is about {country}. Its capital is {city}.",
                    r.choice([f"The capital of {country} is {city}.", f"{city} is the capital of {country}."]))
        return (r.choice([f"{city} is the capital of which country?", f"In which country is {city}?"]),
                f"{city} is a capital city. The country is {country}.", f"{city} is the capital of {country}.")

    def opposite(self):
        r = self.rng
        word = r.choice(list(OPPOSITES))
        other = OPPOSITES[word]
        if r.random() < .5:
            word, other = other, word
        question = r.choice([f"What is the opposite of {word}?", f"Give me the opposite of {word}.",
                             f"Opposite of {word}?"])
        return question, f"The opposite of {word} is {other}.", f"The opposite of {word} is {other}."

    def sound(self):
        animal = self.rng.choice(list(SOUNDS))
        question = self.rng.choice([f"What does a {animal} say?", f"What sound does a {animal} make?"])
        return question, f"A {animal} says {SOUNDS[animal]}.", f"A {animal} says \"{SOUNDS[animal]}\"."

    def greeting(self):
        language = self.rng.choice(list(GREETINGS))
        question = self.rng.choice([f"How do you say hello in {language}?", f"Say hello in {language}."])
        return (question, f"Hello in {language} is {GREETINGS[language]}.",
                f"In {language} you say \"{GREETINGS[language]}\".")

    def emoji(self):
        thing = self.rng.choice(list(EMOJIS))
        question = self.rng.choice([f"Send me a {thing} emoji.", f"Show me a {thing} emoji.", f"Draw a {thing}."])
        return question, f"The user wants a {thing}.", EMOJIS[thing]

    def neighbour(self):
        r = self.rng
        if r.random() < .5:
            sequence, at = DAYS, r.randrange(7)
        else:
            sequence, at = MONTHS, r.randrange(12)
        word, after, before = sequence[at], sequence[(at + 1) % len(sequence)], sequence[at - 1]
        if r.random() < .5:
            return f"What comes after {word}?", f"After {word} comes {after}.", f"{after} comes after {word}."
        return f"What comes before {word}?", f"Before {word} comes {before}.", f"{before} comes before {word}."

    def spelling(self):
        word = self.rng.choice(WORDS)
        question = self.rng.choice([f"Spell the word {word}.", f"How do you spell {word}?"])
        return question, f"{word} has {len(word)} letters.", "-".join(word.upper())

    def letters(self):
        word = self.rng.choice(WORDS)
        count = ", ".join(f"{letter} {i + 1}" for i, letter in enumerate(word))
        return (f"How many letters are in the word {word}?", f"I count: {count}.",
                f"The word {word} has {len(word)} letters.")

    def counting(self):
        r = self.rng
        first = r.randint(1, 12)
        last = first + r.choice([r.randint(2, 9), r.randint(5, 40)])
        question = r.choice([f"Count from {first} to {last}.", f"Please count from {first} to {last}."])
        return question, f"I start at {first} and stop at {last}.", ", ".join(str(i) for i in range(first, last + 1))

    def json_object(self):
        r = self.rng
        name, age, city = r.choice(NAMES), r.randint(3, 99), r.choice(CITIES)
        if r.random() < .5:
            question = r.choice([f"Give me a JSON object with name {name} and age {age}.",
                                 f"Write JSON for a person called {name} who is {age} years old."])
            return question, "Two fields: name and age.", json.dumps({"name": name, "age": age}, ensure_ascii=False)
        return (f"Write JSON for {name}, {age} years old, living in {city}.", "Three fields: name, age and city.",
                json.dumps({"name": name, "age": age, "city": city}, ensure_ascii=False))

    def sorting(self):
        words = self.rng.sample(WORDS, self.rng.randint(3, 5))
        in_order = ", ".join(sorted(words))
        return f"Sort these words: {', '.join(words)}.", f"In order: {in_order}.", in_order

    def repetition(self):
        words = " ".join(self.rng.sample(WORDS, self.rng.randint(2, 6)))
        return self.rng.choice([f"Repeat after me: {words}", f"Say: {words}"]), "I repeat the words.", words

    def fact(self):
        questions, answer = self.rng.choice(FACTS)
        return self.rng.choice(questions), "I know this one.", answer

    def code_word(self):
        """Something that can only be copied: the model must look back for it."""
        r = self.rng
        return r.choice([f"{r.choice('ABCDKLMPRSTWXZ')}{r.randint(1, 99)}-{r.randint(100, 9999)}",
                         str(r.randint(1000, 99999)), f"{r.choice(WORDS)}-{r.randint(10, 999)}",
                         f"{r.choice(WORDS).upper()}{r.randint(1, 99)}"])

    def echo(self):
        code = self.code_word()
        question = self.rng.choice([f"Reply only with the code word: {code}", f"Repeat this code: {code}",
                                    f"Say exactly: {code}", f"Echo: {code}"])
        return question, "I repeat the code.", code

    def extreme(self):
        r = self.rng
        numbers = r.sample(range(100), r.randint(2, 5))
        if r.random() < .5:
            name, value = "largest", max(numbers)
        else:
            name, value = "smallest", min(numbers)
        return (f"Which is the {name}: {', '.join(map(str, numbers))}?", f"I compare them. {value} is the {name}.",
                f"The {name} is {value}.")

    def number_word(self):
        number = self.rng.randint(0, 20)
        return f"Write {number} as a word.", f"{number} is {NUMBER_WORDS[number]}.", NUMBER_WORDS[number]

    def about(self):
        questions, answers = self.rng.choice(ABOUT)
        return self.rng.choice(questions), "A friendly answer is best.", self.rng.choice(answers)
