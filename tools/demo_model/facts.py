"""The tables that the generated dialogues are made of: facts, words, names, tools. Data only; what is asked about them
is questions.py and tool_calls.py. The order of entries matters: a seed picks by position.
"""

CAPITALS = {
    "France": "Paris", "Germany": "Berlin", "Italy": "Rome", "Spain": "Madrid", "Portugal": "Lisbon",
    "Greece": "Athens", "Austria": "Vienna", "Poland": "Warsaw", "Norway": "Oslo", "Sweden": "Stockholm",
    "Finland": "Helsinki", "Denmark": "Copenhagen", "Iceland": "Reykjavik", "Ireland": "Dublin",
    "Belgium": "Brussels", "Hungary": "Budapest", "Romania": "Bucharest", "Bulgaria": "Sofia", "Serbia": "Belgrade",
    "Croatia": "Zagreb", "Ukraine": "Kyiv", "Turkey": "Ankara", "Egypt": "Cairo", "Kenya": "Nairobi",
    "Ghana": "Accra", "Nigeria": "Abuja", "Ethiopia": "Addis Ababa", "Morocco": "Rabat", "Tunisia": "Tunis",
    "Senegal": "Dakar", "Japan": "Tokyo", "China": "Beijing", "India": "New Delhi", "Thailand": "Bangkok",
    "Vietnam": "Hanoi", "Indonesia": "Jakarta", "Philippines": "Manila", "Malaysia": "Kuala Lumpur",
    "Nepal": "Kathmandu", "Iran": "Tehran", "Iraq": "Baghdad", "Israel": "Jerusalem", "Lebanon": "Beirut",
    "Jordan": "Amman", "Canada": "Ottawa", "Mexico": "Mexico City", "Cuba": "Havana", "Peru": "Lima",
    "Chile": "Santiago", "Brazil": "Brasilia", "Argentina": "Buenos Aires", "Colombia": "Bogota",
    "Ecuador": "Quito", "Uruguay": "Montevideo", "Venezuela": "Caracas", "Australia": "Canberra",
    "Russia": "Moscow", "Scotland": "Edinburgh", "England": "London", "Wales": "Cardiff", "Switzerland": "Bern",
    "Netherlands": "Amsterdam", "Estonia": "Tallinn", "Latvia": "Riga", "Lithuania": "Vilnius",
    "Mongolia": "Ulaanbaatar", "South Korea": "Seoul", "Bangladesh": "Dhaka", "Pakistan": "Islamabad",
    "Afghanistan": "Kabul",
}

CITIES = list(CAPITALS.values())

OPPOSITES = {
    "hot": "cold", "big": "small", "fast": "slow", "up": "down", "left": "right", "day": "night", "wet": "dry",
    "light": "dark", "happy": "sad", "old": "young", "rich": "poor", "hard": "soft", "high": "low", "early": "late",
    "open": "closed", "full": "empty", "strong": "weak", "clean": "dirty", "loud": "quiet", "thick": "thin",
    "near": "far", "good": "bad", "long": "short", "wide": "narrow", "heavy": "light", "brave": "afraid",
    "true": "false", "inside": "outside", "first": "last", "begin": "end",
}

SOUNDS = {
    "cow": "moo", "cat": "meow", "dog": "woof", "duck": "quack", "sheep": "baa", "pig": "oink", "horse": "neigh",
    "lion": "roar", "owl": "hoot", "bee": "buzz", "snake": "hiss", "frog": "ribbit", "rooster": "cock-a-doodle-doo",
    "mouse": "squeak", "wolf": "howl",
}

GREETINGS = {
    "French": "bonjour", "Spanish": "hola", "Italian": "ciao", "German": "hallo", "Portuguese": "olá",
    "Japanese": "こんにちは", "Chinese": "你好", "Russian": "привет", "Korean": "안녕하세요", "Greek": "γεια σου",
    "Swedish": "hej", "Turkish": "merhaba", "Polish": "cześć", "Hindi": "नमस्ते", "Arabic": "مرحبا",
}

EMOJIS = {
    "heart": "❤️", "smile": "😊", "star": "⭐", "sun": "☀️", "moon": "🌙", "flower": "🌸", "lily": "🌷", "cat": "🐱",
    "dog": "🐶", "fire": "🔥", "rainbow": "🌈", "tree": "🌳", "fish": "🐟", "apple": "🍎", "rocket": "🚀",
}

NAMES = """
    Tom Anna Ben Lucy Max Ella Sam Mia Leo Nora Jack Rose Finn Clara Hugo Ivy Oscar Ruby Peter Wendy Alice Dora
    Paul Kate Emil Greta Otto Lena Karl Maja
""".split()

DAYS = """
    Monday Tuesday Wednesday Thursday Friday Saturday Sunday
""".split()

MONTHS = """
    January February March April May June July August September October November December
""".split()

WORDS = """
    cat dog house river apple garden window castle dragon forest little story silver golden bird bread school
    mother father sister brother water stone tree flower horse queen king prince lily moon star cloud winter
    summer candle basket button mirror letter ladder pocket rabbit turtle spider lemon orange purple yellow music
    dance friend secret island ocean mountain valley bridge tower lantern feather whisper thunder
""".split()

NUMBER_WORDS = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen twenty
""".split()

SYSTEM_MESSAGES = [
    "You are a helpful assistant.",
    "You are Lily, a small and friendly assistant.",
    "Answer briefly.",
    "You are a kind storyteller.",
    "Answer in one sentence.",
]

# Questions about the model itself and how it works: (ways to ask, possible answers).
ABOUT = [
    (["Who are you?", "What is your name?", "What are you?", "Introduce yourself.", "Tell me about yourself."],
     ["I am Lily, a very small demonstration model. I can chat a little, add numbers, call tools and tell "
      "old-fashioned stories."]),
    (["What can you do?", "How can you help me?", "What are you good at?"],
     ["I can tell stories, answer simple questions, do small sums, write JSON and call tools. For anything "
      "serious, load the full 35B model."]),
    (["How big are you?", "How many parameters do you have?"],
     ["I am tiny: about twenty million parameters, stored in 4 bits each. My big sister has thirty-five "
      "billion."]),
    (["What is Gated DeltaNet?", "Explain Gated DeltaNet.", "What is a linear attention layer?"],
     ["Gated DeltaNet is a kind of linear attention. It keeps a small memory matrix, fades it with a gate, "
      "and corrects it with the delta rule, so its cost does not grow with the length of the text."]),
    (["What is a mixture of experts?", "Explain mixture of experts.", "What does MoE mean?"],
     ["A mixture of experts keeps many small networks and uses only a few of them for each token. A router "
      "picks the experts, so the model is large but each step is cheap."]),
    (["What is 4-bit quantization?", "Why are your weights 4 bits?", "Explain quantization."],
     ["Quantization stores each weight in a few bits together with a scale and a bias for every group. "
      "Fewer bytes to move means faster tokens."]),
    (["What is prefill?", "Explain prefill and decode.", "What is the difference between prefill and decode?"],
     ["Prefill reads the whole prompt at once and is limited by arithmetic. Decode makes one token at a "
      "time and is limited by memory bandwidth."]),
    (["Thank you!", "Thanks.", "Thanks a lot!"],
     ["You are welcome!", "Happy to help!"]),
    (["Hello!", "Hi!", "Hi there.", "Hello, Lily.", "Good morning!", "Hey"],
     ["Hello! How can I help you?", "Hello! What would you like to do today?"]),
    (["Goodbye!", "Bye.", "See you later."],
     ["Goodbye! Come back soon.", "See you soon!"]),
    (["How are you?", "How do you do?"],
     ["I am very well, thank you. How are you?"]),
]

# (ways to ask, the answer)
FACTS = [
    (["Why is the sky blue?", "Explain why the sky is blue."],
     "Sunlight holds all colors. Air scatters blue light most, so the sky looks blue."),
    (["What is rain?", "Where does rain come from?"],
     "Rain is water that falls from clouds. The sun lifts water into the air and it comes back as drops."),
    (["What is the moon?"], "The moon is a ball of rock that travels around the Earth."),
    (["What is the sun?"], "The sun is a star. It gives us light and warmth."),
    (["Why do leaves fall?", "Why do trees lose their leaves?"],
     "In autumn trees save water and food, so they let their leaves fall."),
    (["How many days are in a week?"], "There are seven days in a week."),
    (["How many months are in a year?"], "There are twelve months in a year."),
    (["What do bees make?"], "Bees make honey and wax."),
    (["What is ice?"], "Ice is frozen water."),
    (["How many legs does a spider have?"], "A spider has eight legs."),
    (["How many legs does a dog have?"], "A dog has four legs."),
    (["What color is the sky?"], "On a clear day the sky is blue."),
    (["What is a GPU?"], "A GPU is a chip that does many small sums at the same time."),
    (["What is memory bandwidth?"], "Memory bandwidth tells how many bytes can be moved each second."),
    (["What is a token?"], "A token is a small piece of text, often a word or part of a word."),
    (["What is an attention layer?", "What is attention?"],
     "An attention layer lets each token look back at all the earlier tokens and take what it needs."),
    (["What is a KV cache?"],
     "A KV cache keeps the keys and values of earlier tokens, so they need not be computed again."),
    (["What is a tokenizer?"], "A tokenizer cuts text into tokens and joins tokens back into text."),
    (["What is Metal?"], "Metal is Apple's way to program the GPU."),
    (["What is CUDA?"], "CUDA is NVIDIA's way to program the GPU."),
    (["Who wrote Alice in Wonderland?"], "Lewis Carroll wrote Alice in Wonderland."),
    (["Who wrote The Wizard of Oz?"], "L. Frank Baum wrote The Wonderful Wizard of Oz."),
    (["Who wrote Peter Pan?"], "J. M. Barrie wrote Peter Pan."),
    (["Who wrote Treasure Island?"], "Robert Louis Stevenson wrote Treasure Island."),
]

# Name: description and JSON schema of the parameters. models/demo/tools.json holds the same tools.
TOOLS = {
    "get_weather": {
       "description": "Get the current weather for a city.",
       "parameters": {
           "type": "object",
           "properties": {
               "city": {"type": "string", "description": "City name"},
               "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            },
           "required": ["city"],
        },
    },
    "get_time": {
       "description": "Get the current local time in a city.",
       "parameters": {
           "type": "object",
           "properties": {
               "city": {"type": "string"},
            },
           "required": ["city"],
        },
    },
    "add": {
       "description": "Add two integers.",
       "parameters": {
           "type": "object",
           "properties": {
               "a": {"type": "integer"},
               "b": {"type": "integer"},
            },
           "required": ["a", "b"],
        },
    },
    "search": {
       "description": "Search the web.",
       "parameters": {
           "type": "object",
           "properties": {
               "query": {"type": "string"},
            },
           "required": ["query"],
        },
    },
    "set_timer": {
       "description": "Start a timer.",
       "parameters": {
           "type": "object",
           "properties": {
               "minutes": {"type": "integer"},
               "label": {"type": "string"},
            },
           "required": ["minutes"],
        },
    },
    "send_message": {
       "description": "Send a message to a person.",
       "parameters": {
           "type": "object",
           "properties": {
               "to": {"type": "string"},
               "text": {"type": "string"},
            },
           "required": ["to", "text"],
        },
    },
    "read_file": {
       "description": "Read a text file.",
       "parameters": {
           "type": "object",
           "properties": {
               "path": {"type": "string", "description": "Path of the file"},
            },
           "required": ["path"],
        },
    },
}
