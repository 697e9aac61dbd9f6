//! The host's functions by theme, with an example if a signature is not sufficient.

use valvehouse_script_std::reference::{Function, handle};

/// A group of related functions.
pub(super) struct Theme {
    pub(super) title: &'static str,
    pub(super) about: &'static str,
    /// The module; "" for the functions in `names`, which are outside of modules.
    module: &'static str,
    names: &'static [&'static str],
    /// A script that loads.
    pub(super) example: &'static str,
}

impl Theme {
    pub(super) fn has(&self, function: &Function) -> bool {
        match self.module {
            "" => {
                function.module.is_empty()
                    && self.names.contains(&&*function.name)
                    && !self.is_of_handle(function)
            }
            // Submodules have the same functions.
            module => function.module == module,
        }
    }

    /// Returns `true` for a method of a handle, which is documented with the handle.
    fn is_of_handle(&self, function: &Function) -> bool {
        function.is_method && handle(&function.params[0].kind.name()).is_some()
    }

    /// Returns the sort key: the position in `names`; other functions follow.
    pub(super) fn place(&self, function: &Function) -> usize {
        self.names.iter().position(|name| *name == function.name).unwrap_or(usize::MAX)
    }
}

/// Returns the theme of a module.
pub(super) fn of_module(module: &str) -> Option<&'static Theme> {
    THEMES.iter().find(|theme| !theme.module.is_empty() && theme.module == module)
}

/// Returns the purpose of a module in one line; "" for an unknown module.
pub fn about_module(name: &str) -> &'static str {
    of_module(name).map_or("", |theme| theme.about)
}

const fn theme(
    module: &'static str,
    title: &'static str,
    about: &'static str,
    example: &'static str,
) -> Theme {
    Theme { title, about, module, names: &[], example }
}

pub(super) const THEMES: &[Theme] = &[
    Theme {
        title: "Answers and rejections",
        about: "Results of a hook or tool other than its value. `throw` rejects a request like `deny`: `throw \
             \"text\"`, or `throw #{ status: 429, message: \"…\", retry_after: 3 }`.",
        module: "",
        names: &["deny", "skip", "error", "ok", "hold_answer"],
        example: r#"
fn inlet(body, __user__) {
    if __user__.role != "admin" && body.model == "expensive" {
        deny("This model is for administrators.", 403);
    }
    if body.messages.last("user")?.text == "ping" {
        return skip("pong");
    }
    body
}
"#,
    },
    Theme {
        title: "Events and questions",
        about: "Events are sent to clients that request them (`x-valvehouse-events: 1`), and to Open WebUI.",
        module: "",
        names: &["emit", "ask", "__event_emitter__", "__event_call__"],
        example: r#"
fn inlet(body) {
    emit(#{ type: "status", data: #{ description: "Looking it up", done: false } });
    body
}
"#,
    },
    Theme {
        title: "After the answer",
        about: "`after(|| …)` and `fn done(body)` run when the client has received its answer or \
                disconnected. They run in the background: their errors are logged and counted. They have the \
                limits of a hook and 60 s including waiting; their events are not sent to a client.",
        module: "",
        names: &["after"],
        example: r#"
/*
requirements: kv, llm
*/
fn outlet(body) {
    let answer = body.messages.last().text;
    after(|| {
        let request = #{ messages: [#{ role: "user", content: "A title in five words:\n" + answer }], max_tokens: 20 };
        kv::chat::set("title", llm::chat(request).content);
    });
}
"#,
    },
    Theme {
        title: "Waiting",
        about: "Other requests continue while a script waits. Waiting counts against the time limit of the \
                call: 30 s \
                for a hook, the timeout of a tool or a pipe.",
        module: "",
        names: &["parallel", "retry", "poll", "next"],
        example: r#"
/*
requirements: http
allow_hosts: jobs.example.com
*/
fn outlet(body) {
    let job = retry(#{ times: 4, delay: 250 }, || http::post("https://jobs.example.com/new").json());
    let both = parallel([
        || poll(#{ every: 500, timeout: 20_000 }, || http::get(job.url).json().result),
        || { time::sleep(100); http::get("https://jobs.example.com/motd").text },
    ]);
    let answer = body.messages.last();
    answer.text += "\n\n" + both[0] + " " + both[1];
    body
}
"#,
    },
    Theme {
        title: "Functions of Python",
        about: "The functions and methods that scripts in Python use most, with the same results. Methods return a new \
                value.",
        module: "",
        names: &[
            "int",
            "float",
            "str",
            "bool",
            "list",
            "set",
            "reversed",
            "enumerate",
            "zip",
            "any",
            "all",
            "items",
            "update",
            "setdefault",
            "extend",
            "strip",
            "lstrip",
            "rstrip",
            "lower",
            "upper",
            "capitalize",
            "title",
            "startswith",
            "endswith",
            "removeprefix",
            "removesuffix",
            "split",
            "splitlines",
            "replaced",
            "ljust",
            "rjust",
            "center",
            "zfill",
            "isdigit",
            "isalpha",
            "isalnum",
            "count",
            "find",
            "join",
        ],
        example: r#"
fn inlet(body) {
    let words = body.text.lower().split();
    for (key, value) in body.metadata ?? #{} {
        log::info(`${key}: ${value}`);
    }
    if any(words.map(|word| word.startswith("http"))) {
        log::info(", ".join(words));
    }
    body
}
"#,
    },
    Theme {
        title: "Values",
        about: "For lists and maps, both live values of a hook and values of the script.",
        module: "",
        names: &[
            "empty",
            "copy",
            "at",
            "ensure",
            "get",
            "uuid",
            "range",
            "sum",
            "max",
            "min",
            "sorted",
            "round",
            "floor",
            "ceiling",
            "sqrt",
            "parse_int",
        ],
        example: r#"
fn inlet(body) {
    let features = body.ensure("metadata.features", #{});
    features.web_search = false;
    if empty(body.at("messages.0.content")) {
        log::warn("the first message is empty");
    }
    body
}
"#,
    },
    Theme {
        title: "The log",
        about: "Lines are written to the host's log with the plugin's id, and to the request's trace; at most \
             100 per call.",
        module: "log",
        names: &[],
        example: "",
    },
    Theme {
        title: "Printing",
        about: "The short form of the log.",
        module: "",
        names: &["print", "debug"],
        example: "",
    },
    Theme {
        title: "Answers of pipes",
        about: "`fn pipe(body)` answers as a model. Yielded chunks are sent at once, the returned value \
                after them. It may also return a streamed answer.",
        module: "",
        names: &["yield_text", "yield_piece"],
        example: r#"
/*
requirements: http
allow_hosts: agent.example.com
*/
fn pipe(body) {
    let question = body.messages.last("user").text;
    let options = #{ method: "POST", json: #{ question: question }, read: "sse" };
    for event in http::stream("https://agent.example.com/run", options) {
        yield_text(json::parse(event.data).text);
    }
}
"#,
    },
    theme("json", "`json::`", "Converts between JSON text and values.", ""),
    theme(
        "regex",
        "`regex::`",
        "Regular expressions in linear time, without look-around and backreferences. In backticks a pattern \
         needs no escapes.",
        r#"
fn outlet(body) {
    let answer = body.messages.last();
    answer.text = regex::replace(answer.text, `\b(\d{4})-(\d\d)-(\d\d)\b`, "$3.$2.$1");
    answer.text = regex::replace(answer.text, `[a-z]+@[a-z.]+`, |groups| groups[0].len + " letters");
    body
}
"#,
    ),
    theme(
        "text",
        "`text::`",
        "Functions for texts in addition to their methods. All of them return a new text.",
        "",
    ),
    theme(
        "stream",
        "`stream::`",
        "Finds a text in a stream even if it is split across several events.",
        r#"
fn stream(event, state) {
    stream::window(event, state, 60, |text| regex::replace(text, "sk-[A-Za-z0-9]{20,50}", "[key]"));
}
"#,
    ),
    theme(
        "time",
        "`time::`",
        "Points in time are Unix seconds; zones are names such as `Europe/Berlin`.",
        "",
    ),
    theme("tokens", "`tokens::`", "Counts the tokens of a text.", ""),
    theme(
        "random",
        "`random::`",
        "Pseudorandom numbers, not for secrets; use `uuid()` for identifiers that must not be guessable.",
        "",
    ),
    theme(
        "jwt",
        "`jwt::`",
        "JSON web tokens, signed with HS256, RS256 and ES256. Keys belong in `secret` valves.",
        r#"
const Valves = #{ key: #{ value: (), type: "string", secret: true, multiline: true } };
fn inlet(body, valves, __user__) {
    let now = time::unix();
    let claims = #{ iss: "valvehouse", sub: __user__.id, aud: "billing", iat: now, exp: now + 300 };
    body.metadata = #{ token: jwt::sign(claims, valves.key, #{ algorithm: "ES256", kid: "2026" }) };
    body
}
"#,
    ),
    theme(
        "csv",
        "`csv::`",
        "Tables as text, at most 100,000 values and 8 MiB.",
        r#"
fn handler(args) {
    let rows = csv::parse(args.table, #{ delimiter: ";" });
    csv::write(rows.filter(|row| row.city == "Rome"), #{ columns: ["city", "people"] })
}
"#,
    ),
    theme(
        "xlsx",
        "`xlsx::`",
        "Tables as workbooks (XLSX) of one sheet, at most 100,000 values and 8 MiB. `documents::text` reads workbooks.",
        r#"
fn handler(args) {
    let book = xlsx::write(args.rows, #{ sheet: "Orders" });
    #{ name: "orders.xlsx", data: base64::encode(book) }
}
"#,
    ),
    theme("hash", "`hash::`", "Digests, in hexadecimal.", ""),
    theme("base64", "`base64::`", "Encodes and decodes base64.", ""),
    Theme {
        title: "Bytes",
        about: "Bytes from `http`, `files`, `base64` and `hash`: at most 8 MiB in one value, with `len()`, \
             `bytes[0]`, `extract(start, length)`, `+` and `==`. Bytes are not JSON; to store them, use \
             base64::encode(bytes).",
        module: "",
        names: &["text", "text_lossy", "hex", "data_url", "to_blob"],
        example: r#"
/*
requirements: http
allow_hosts: images.example.com
*/
fn inlet(body) {
    let picture = http::get("https://images.example.com/today.png").bytes;
    body.messages.last("user").add_image(picture);
    log::info(`${picture.len()} bytes, ${hash::sha256(picture)}`);
    body
}
"#,
    },
    theme("url", "`url::`", "Addresses and their parts.", ""),
    theme("html", "`html::`", "Converts to and from HTML.", ""),
    theme("models", "`models::`", "The models of this host.", ""),
    theme(
        "uploads",
        "`uploads::`",
        "The files that the client sent with the request, those of `__files__`. They need no capability: they are part \
         of the request. Nothing is fetched.",
        r#"
fn inlet(body) {
    let question = body.messages.last("user");
    for file in uploads::list() {
        if file.has_content && (file.type ?? "").starts_with("text/") {
            question.text += "\n\n" + file.name + ":\n" + text::truncate(uploads::text(file.name), 4_000);
        }
    }
    body
}
"#,
    ),
    theme(
        "documents",
        "`documents::`",
        "The text of documents as bytes, from `files`, `http` or `uploads`.",
        r#"
fn inlet(body) {
    let question = body.messages.last("user");
    for file in uploads::list() {
        if file.has_content && file.name.ends_with(".docx") {
            question.text += "\n\n" + text::truncate(documents::text(uploads::bytes(file.name)), 20_000);
        }
    }
    body
}
"#,
    ),
    theme(
        "vectors",
        "`vectors::`",
        "Vectors that a script stores with data, and an exact search for the nearest ones. `vectors::` are the \
         script's own, `vectors::user::` those of one verified user; both have the same functions. Spaces of up to 256 \
         MiB are held in memory while they are used, larger ones are read at each search. Hosts that share a database \
         share them.",
        r#"
/*
requirements: vectors, llm
*/
fn inlet(body) {
    if vectors::count() == 0 {
        let texts = ["Refunds take five days.", "Shipping to Norway costs 12 euros."];
        let found = llm::embed(texts);
        for (text, i) in texts { vectors::add(`${i}`, found[i], text); }
    }
    let question = body.messages.last("user").text;
    let facts = vectors::nearest(llm::embed(question), 3).map(|one| one.data);
    body.messages.append_system("Facts:\n" + text::join(facts, "\n"));
    body
}
"#,
    ),
    theme(
        "memories",
        "`memories::`",
        "Stored texts about the user of a request, shared by all scripts with the grant: `valvehouse grant ID \
         memories`. `memories::user::` has the same functions. A user is verified by its key (`user` in `[server] keys`), a \
         token, trusted headers or the command line; a name in the body of a request is not enough. The functions \
         fail without a verified user. Search uses the model of `[embeddings]`.",
        r#"
/*
requirements: memories
*/
fn inlet(body) {
    let question = body.messages.last("user").text;
    let known = memories::user::search(question, 3, #{ min_score: 0.2 }).map(|one| one.text);
    if known.len > 0 {
        body.messages.append_system("About the user:\n" + text::join(known, "\n"));
    }
    body
}
"#,
    ),
    theme(
        "chats",
        "`chats::`",
        "The stored conversations of the user of a request, read only: `valvehouse grant ID chats`. Models with `memory = \
         true` store conversations that have a chat id. Only conversations that a verified user started are found, and \
         only by that user.",
        r#"
/*
requirements: chats
*/
fn handler(args) {
    chats::search(args.text, #{ limit: 5 }).map(|found| `${found.title}: ${found.text}`)
}
"#,
    ),
    theme(
        "kv",
        "`kv::`",
        "Values that a script stores beyond a turn and a restart. `kv::` is the script's own map, \
         `kv::user::` one per user, `kv::chat::` one per chat (without a chat id it is the turn's); all \
         three have the same functions. Hosts that share a database exchange entries ten times a second: \
         counts of `incr` and `window` are added; for other writes to a key, the last one wins. A window \
         gives each host a share of its limit ([several \
         hosts](several-hosts.md#kv-limits-and-budgets)).",
        r#"
/*
requirements: kv
*/
fn inlet(body) {
    let window = kv::user::window("requests", 60, 20);
    if !window.allowed {
        deny(`Try again in ${window.retry_after} s.`, 429);
    }
    kv::incr("today", 1, 86_400);
    body
}
"#,
    ),
    theme(
        "http",
        "`http::`",
        "HTTP requests to other hosts: those in `allow_hosts` and those that were granted.",
        r#"
/*
requirements: http
allow_hosts: api.example.com
*/
fn inlet(body) {
    let answer = http::get("https://api.example.com/limits", #{ query: #{ model: body.model }, timeout: 2_000 });
    if answer.status == 200 {
        body.max_tokens = answer.json().max_tokens;
    }
    body
}
"#,
    ),
    theme(
        "llm",
        "`llm::`",
        "Calls of models of this host.",
        r#"
/*
requirements: llm
*/
fn inlet(body) {
    let question = `Answer yes or no: is this about cooking? ${body.messages.last("user").text}`;
    let answer = llm::chat(#{ messages: [#{ role: "user", content: question }] });
    if !answer.text.to_lower().contains("yes") {
        deny("This assistant talks about cooking.");
    }
    body
}
"#,
    ),
    theme(
        "tools",
        "`tools::`",
        "Calls of tools of this host: the tools of the turn, and granted ones (`valvehouse grant ID \
         tools=weather`). Filters, approvals and limits are the same as for a model's call; `ctx.caller` is the \
         script. Scripts make at most 256 calls in one turn, 4 deep, each with at most 1 MiB of arguments.",
        r#"
/*
requirements: tools
*/
fn inlet(body) {
    let question = body.messages.last("user");
    if question.text.contains("weather") {
        let places = ["Oslo", "Rome"].map(|city| #{ name: "weather", args: #{ city: city } });
        let seen = tools::all(places, #{ settle: true });
        question.text += "\n\nThe weather: " + json::stringify(seen.map(|one| one.value ?? one.error));
    }
    body
}
"#,
    ),
    theme("files", "`files::`", "Files in granted folders: `valvehouse grant ID files=data`.", ""),
    theme("shell", "`shell::`", "Granted programs: `valvehouse grant ID shell=git`.", ""),
    theme("env", "`env::`", "Granted environment variables: `valvehouse grant ID env=NAME`.", ""),
];
