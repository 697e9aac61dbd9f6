//! Functions of Python's modules and of Open WebUI.

use super::arguments::Arguments;
use super::context::{Hindrance, Outcome, Translator};
use super::helper::Helper;
use super::path::kind_of;
use crate::code::{Code, call, strength};
use crate::kinds::{Client, Type};
use crate::names;
use crate::plugin::PluginKind;
use crate::python::{Expr, ExprKind, Star};
use crate::report::NoteKind;
use crate::value::Value;

impl Translator<'_> {
    /// Returns the code that calls a function by its full name.
    pub(super) fn library(&mut self, path: &str, arguments: &Arguments<'_>, line: usize) -> Outcome {
        let (module, name) = path.rsplit_once('.').unwrap_or(("", path));
        match module {
            "re" => return self.re(name, arguments),
            "requests" | "httpx" if is_verb(name) => {
                return self.request(name, arguments, &Client::default(), false, line);
            }
            "requests" | "aiohttp" | "httpx" | "requests.sessions"
                if matches!(name, "Session" | "session" | "ClientSession" | "AsyncClient" | "Client") =>
            {
                return self.session(arguments, line);
            }
            "logging" | "loguru.logger" => return self.log(name, arguments),
            "open_webui.utils.misc"
            | "utils.pipelines.main"
            | "open_webui.utils.chat"
            | "open_webui.utils.response" => {
                return self.host_function(name, path, arguments);
            }
            "math" => return self.math(name, arguments),
            "random" | "secrets" => return self.random(name, arguments),
            "urllib.parse" => return self.address(name, arguments),
            _ => {}
        }
        let one = |translator: &mut Self| translator.expr(arguments.need(0, name)?);
        match path {
            "json.loads" | "orjson.loads" | "ujson.loads" => {
                let text = one(self)?;
                Ok(call("json::parse", &[text.text], Type::Unknown))
            }
            "json.dumps" | "orjson.dumps" | "ujson.dumps" => {
                let value = one(self)?;
                let mut args = vec![value.text];
                if let Some(indent) = arguments.named("indent") {
                    let indent = self.expr(indent)?;
                    if indent.text != "()" {
                        args.push(indent.text);
                    }
                }
                Ok(call("json::stringify", &args, Type::Text))
            }
            "time.time" => Ok(Code::new("time::unix_ms() / 1000.0", strength::MULTIPLY, Type::Float)),
            "time.time_ns" => Ok(Code::new("time::unix_ms() * 1_000_000", strength::MULTIPLY, Type::Int)),
            "time.monotonic" | "time.perf_counter" | "time.process_time" => {
                Ok(Code::new("time::elapsed_ms() / 1000.0", strength::MULTIPLY, Type::Span))
            }
            "time.sleep" | "asyncio.sleep" => {
                let Some(milliseconds) = self.milliseconds(arguments.need(0, name)?)? else {
                    return Hindrance::err(NoteKind::Concurrency, "a pause without a length");
                };
                Ok(call("time::sleep", &[milliseconds], Type::None))
            }
            "time.strftime" => {
                let format = one(self)?;
                let at = match arguments.at(1) {
                    Some(at) => self.expr(at)?,
                    None => call("time::unix", &[], Type::Time),
                };
                Ok(super::time::shown(&at, &format.text))
            }
            "time.localtime" | "time.gmtime" => match arguments.at(0) {
                Some(at) => Ok(self.expr(at)?.typed(Type::Time)),
                None => Ok(call("time::unix", &[], Type::Time)),
            },
            "datetime.datetime.now" => {
                let kind = self.time_in(arguments.get(0, "tz"))?;
                Ok(call("time::unix", &[], kind))
            }
            "datetime.datetime.utcnow" | "datetime.datetime.today" => Ok(call("time::unix", &[], Type::Time)),
            "datetime.date.today" => Ok(super::time::day_of(&call("time::unix", &[], Type::Time))),
            "datetime.datetime.fromtimestamp" => {
                let kind = self.time_in(arguments.get(1, "tz"))?;
                Ok(one(self)?.typed(kind))
            }
            "datetime.datetime.utcfromtimestamp" => Ok(one(self)?.typed(Type::Time)),
            "datetime.datetime.strptime" => {
                let text = one(self)?;
                let format = self.expr(arguments.need(1, name)?)?;
                Ok(call("time::parse", &[text.text, format.text], Type::Time))
            }
            "datetime.datetime.fromisoformat" | "dateutil.parser.parse" | "dateutil.parser.isoparse" => {
                let text = one(self)?;
                let parse = self.helper(Helper::ParseTime);
                Ok(call(parse, &[text.text], Type::Time))
            }
            "datetime.timedelta" => self.span(arguments),
            "datetime.timezone" => one(self),
            "zoneinfo.ZoneInfo" | "pytz.timezone" => one(self),
            "uuid.uuid4" | "uuid.uuid1" | "uuid.uuid7" => Ok(call("uuid", &[], Type::Uuid)),
            "hashlib.sha256" | "hashlib.md5" => {
                let data = match arguments.at(0) {
                    Some(data) => self.expr(data)?.text,
                    None => return Hindrance::err(NoteKind::Bytes, "a digest of several parts"),
                };
                Ok(Code::atom(format!("hash::{name}({data})"), Type::Digest))
            }
            "hashlib.sha512" | "hashlib.sha384" => {
                let data = one(self)?;
                Ok(Code::atom(format!("hash::digest(\"{name}\", {}).hex()", data.text), Type::Digest))
            }
            "hmac.new" => {
                let key = one(self)?;
                let data = self.expr(arguments.need(1, name)?)?;
                let digest = arguments.get(2, "digestmod");
                let is_sha256 = |digest: &Expr| {
                    digest.as_text() == Some("sha256") || digest.path_or_empty().ends_with("sha256")
                };
                if !digest.is_some_and(is_sha256) {
                    return Hindrance::err(NoteKind::Bytes, "`hmac.new` with another hash than SHA-256");
                }
                Ok(Code::atom(format!("hash::hmac_sha256({}, {})", key.text, data.text), Type::Digest))
            }
            "base64.b64encode" | "base64.standard_b64encode" => {
                let data = one(self)?;
                Ok(call("base64::encode", &[data.text], Type::Text))
            }
            "base64.urlsafe_b64encode" => {
                let data = one(self)?;
                Ok(call("base64::encode_url", &[data.text], Type::Text))
            }
            "base64.b64decode" | "base64.urlsafe_b64decode" | "base64.standard_b64decode" => {
                let text = one(self)?;
                Ok(call("base64::decode_bytes", &[text.text], Type::Bytes))
            }
            "html.escape" => Ok(call("html::escape", &[one(self)?.text], Type::Text)),
            "html.unescape" => Ok(call("html::unescape", &[one(self)?.text], Type::Text)),
            "bs4.BeautifulSoup" => {
                let page = one(self)?;
                // The name of a parser.
                arguments.skip();
                Ok(match (&page.kind, page.text.strip_suffix(".bytes")) {
                    (Type::Bytes, Some(answer)) => Code::atom(format!("{answer}.text"), Type::Page),
                    (Type::Bytes, None) => page.method("text", &[], Type::Page),
                    _ => page.typed(Type::Page),
                })
            }
            "html2text.html2text" | "markdownify.markdownify" => {
                Ok(call("html::text", &[one(self)?.text], Type::Text))
            }
            "os.getenv" | "os.environ.get" => {
                let name = arguments.need(0, name)?;
                self.environment(name, arguments.at(1))
            }
            "copy.deepcopy" | "copy.copy" => Ok(one(self)?).map(|value| {
                let kind = value.kind.clone();
                value.method("copy", &[], kind)
            }),
            "textwrap.dedent" | "inspect.cleandoc" => {
                match Value::of(arguments.need(0, name)?, &self.plugin.constants) {
                    Some(Value::Text(text)) => {
                        Ok(Code::atom(names::quoted(&crate::value::dedent(&text)), Type::Text))
                    }
                    _ => one(self),
                }
            }
            "traceback.format_exc" | "traceback.print_exc" | "sys.exc_info" => match self.scope.error.clone()
            {
                Some(error) => Ok(Code::atom(format!("{error}.message"), Type::Text)),
                None => Ok(Code::atom("\"\"", Type::Text)),
            },
            "asyncio.gather" => self.gather(arguments),
            "asyncio.create_task" | "asyncio.ensure_future" | "asyncio.run" | "asyncio.shield" => {
                self.ends(arguments.need(0, name)?)?;
                one(self)
            }
            "asyncio.wait_for" => {
                let limit = arguments.get(1, "timeout");
                if limit.is_some_and(|limit| !matches!(limit.kind, ExprKind::None)) {
                    let text = "`wait_for`: its time limit; calls of the host have their own";
                    self.flag(NoteKind::Concurrency, text, line);
                }
                one(self)
            }
            "asyncio.to_thread"
            | "fastapi.concurrency.run_in_threadpool"
            | "starlette.concurrency.run_in_threadpool"
            | "asgiref.sync.sync_to_async" => {
                self.forwarded(arguments.positional(), arguments.all_named(), line)
            }
            "asyncio.Lock"
            | "asyncio.Semaphore"
            | "asyncio.get_event_loop"
            | "asyncio.get_running_loop"
            | "asyncio.new_event_loop"
            | "threading.Lock"
            | "threading.RLock"
            | "asyncio.Event"
            | "asyncio.BoundedSemaphore"
            | "aiohttp.TCPConnector"
            | "httpx.Limits"
            | "contextlib.suppress"
            | "warnings.filterwarnings"
            | "urllib3.disable_warnings"
            | "requests.adapters.HTTPAdapter"
            | "urllib3.util.retry.Retry"
            | "urllib3.Retry"
            | "asyncio.timeout"
            | "asyncio.set_event_loop"
            | "ssl.create_default_context"
            | "nest_asyncio.apply"
            | "logging.basicConfig"
            | "concurrent.futures.ThreadPoolExecutor" => Ok(Code::atom("()", Type::Nothing)),
            "aiohttp.ClientTimeout" | "httpx.Timeout" => match super::time::total(arguments) {
                Some(seconds) => match self.expr(seconds)? {
                    code if code.text == "()" => Ok(Code::atom("()", Type::Nothing)),
                    code => Ok(code.typed(Type::Span)),
                },
                None => Ok(Code::atom("()", Type::Nothing)),
            },
            "tiktoken.get_encoding" | "tiktoken.encoding_for_model" => Ok(Code::atom("()", Type::Encoder)),
            "collections.defaultdict" | "collections.OrderedDict" => match arguments.at(0) {
                Some(value) if matches!(value.kind, ExprKind::Dict(_)) => self.expr(value),
                _ => Ok(Code::atom("#{}", Type::Map)),
            },
            "collections.deque" => match arguments.at(0) {
                Some(value) => self.as_list(value),
                None => Ok(Code::atom("[]", Type::list())),
            },
            "itertools.chain" => {
                let all: Vec<String> = arguments
                    .positional()
                    .iter()
                    .map(|list| Ok(self.as_list(list)?.at(strength::ADD + 1)))
                    .collect::<Outcome<_>>()?;
                Ok(Code::new(all.join(" + "), strength::ADD, Type::list()))
            }
            "difflib.SequenceMatcher" => Hindrance::err(NoteKind::Package, "`difflib`: use `text::similar`"),
            "fastapi.HTTPException" | "starlette.exceptions.HTTPException" => self.error_value(arguments),
            "fastapi.responses.StreamingResponse" | "starlette.responses.StreamingResponse" => one(self),
            "fastapi.responses.HTMLResponse" | "starlette.responses.HTMLResponse"
                if self.plugin.kind == PluginKind::Tool =>
            {
                let page = self.expr(arguments.need(0, "content")?)?;
                let show = self.helper(Helper::ShowPage);
                Ok(call(show, &[page.text], Type::Text))
            }
            "fastapi.responses.JSONResponse"
            | "starlette.responses.JSONResponse"
            | "fastapi.responses.HTMLResponse"
            | "starlette.responses.HTMLResponse"
            | "fastapi.responses.PlainTextResponse" => match arguments.get(0, "content") {
                Some(content) => self.expr(content),
                None => Ok(Code::atom("()", Type::None)),
            },
            "typing.cast" => self.expr(arguments.need(1, name)?),
            "pydantic.Field" | "dataclasses.field" => {
                Hindrance::err(NoteKind::Settings, "a field outside of a class")
            }
            "os.path.join" => {
                let all: Vec<String> = self.texts(arguments.positional())?;
                Ok(Code::atom(format!("`${{{}}}`", all.join("}/${")), Type::Text))
            }
            "os.path.basename" => {
                let path = one(self)?;
                Ok(Code::atom(format!("{}.split(\"/\").pop()", path.owner()), Type::Text))
            }
            "os.path.exists" | "os.path.isfile" | "os.path.isdir" => {
                Hindrance::err(NoteKind::Os, "`os.path.exists`: use `files::exists`, with a grant")
            }
            "statistics.mean" => {
                let list = one(self)?;
                let total = self.helper(super::Helper::Total);
                Ok(Code::new(
                    format!("{total}({0}).to_float() / {0}.len()", list.owner()),
                    strength::MULTIPLY,
                    Type::Float,
                ))
            }
            "unicodedata.normalize" => self.expr(arguments.need(1, name)?),
            "operator.itemgetter" => match arguments.need(0, name)?.as_text() {
                Some(key) => {
                    Ok(Code::new(format!("|one| one[{}]", names::quoted(key)), strength::ANY, Type::Closure))
                }
                None => Hindrance::err(NoteKind::Package, format!("`{path}`")),
            },
            _ if path.ends_with(".users.Users.get_user_by_id") => {
                let id = one(self)?;
                Ok(Code::atom(format!("#{{ id: {} }}", id.text), Type::Map))
            }
            _ if path.starts_with("open_webui.")
                && (path.ends_with(".UserModel") || path.ends_with(".User")) =>
            {
                match arguments.spread.first() {
                    Some((_, user)) => self.expr(user),
                    None => Hindrance::err(NoteKind::HostCode, format!("`{path}`")),
                }
            }
            _ if path.ends_with("generate_chat_completion")
                || path.ends_with("generate_chat_completions")
                || path.ends_with("chat_completion") && path.starts_with("open_webui") =>
            {
                self.chat(arguments)
            }
            _ if path.starts_with("requests.")
                || path.starts_with("aiohttp.")
                || path.starts_with("httpx.") =>
            {
                if name.ends_with("Error") || name.ends_with("Exception") || name.ends_with("Timeout") {
                    return self.error_value(arguments);
                }
                if matches!(name, "BasicAuth" | "HTTPBasicAuth" | "FormData") {
                    return Hindrance::err(NoteKind::Http, format!("`{path}`"));
                }
                Hindrance::err(NoteKind::Http, format!("`{path}`"))
            }
            _ => Hindrance::err(kind_of(path), format!("`{path}`")),
        }
    }

    /// Calls a function with the arguments that follow it, as `asyncio.to_thread(f, x)` does.
    pub(super) fn forwarded(
        &mut self,
        positional: &[&Expr],
        named: &[(&str, &Expr)],
        line: usize,
    ) -> Outcome {
        let Some((function, rest)) = positional.split_first() else {
            return Hindrance::err(NoteKind::Concurrency, "a thread without a function");
        };
        let mut args: Vec<crate::python::Arg> = rest
            .iter()
            .map(|value| crate::python::Arg { name: None, star: Star::None, value: (*value).clone() })
            .collect();
        args.extend(named.iter().map(|(name, value)| crate::python::Arg {
            name: Some((*name).to_owned()),
            star: Star::None,
            value: (*value).clone(),
        }));
        if let ExprKind::Lambda(params, body) = &function.kind
            && params.is_empty()
        {
            return self.expr(body);
        }
        self.call(function, &args, line)
    }

    /// Returns the code that requests a chat completion from a model.
    fn chat(&mut self, arguments: &Arguments<'_>) -> Outcome {
        // The request and the user are those of the turn.
        arguments.skip();
        let form = arguments
            .named("form_data")
            .or_else(|| arguments.named("body"))
            .or_else(|| arguments.at(1))
            .or_else(|| arguments.at(0));
        let Some(form) = form else {
            return Hindrance::err(NoteKind::HostCode, "a request to a model without a body");
        };
        let form = self.expr(form)?;
        self.capability("llm");
        Ok(call("llm::chat", &[form.text], Type::Model))
    }

    /// Returns the code of `asyncio.gather`: a call of `parallel`.
    fn gather(&mut self, arguments: &Arguments<'_>) -> Outcome {
        let settles = arguments
            .named("return_exceptions")
            .is_some_and(|value| !matches!(value.kind, ExprKind::Bool(false)));
        let settled = || {
            Hindrance::err(
                NoteKind::Concurrency,
                "`gather` that returns exceptions: use `parallel(…, #{ settle: true })`",
            )
        };
        if let [(Star::List, list)] = arguments.spread.as_slice() {
            if arguments.count() == 0 {
                if let ExprKind::ListOf(value, of) | ExprKind::Generator(value, of) = &list.kind
                    && let [only] = of.as_slice()
                    && let ExprKind::Name(_) = only.target.kind
                {
                    let source = self.filtered(only)?;
                    let Some(name) = only.target.as_name() else {
                        return Hindrance::err(NoteKind::Python, "a loop");
                    };
                    let code = names::variable(name);
                    let variable =
                        super::context::Variable { code: code.clone(), kind: source.kind.element() };
                    let body = self.with_variables(vec![(name.to_owned(), variable)], |translator| {
                        translator.expr(value)
                    })?;
                    if settles {
                        return settled();
                    }
                    {
                        let functions = format!("{}.map(|{code}| || {})", source.owner(), body.text);
                        return Ok(call("parallel", &[functions], Type::list_of(body.kind)));
                    }
                }
                if settles {
                    return settled();
                }
                return self.expr(list);
            }
            return Hindrance::err(NoteKind::Concurrency, "`gather` with a list");
        }
        let mut kinds = Vec::new();
        let mut functions = Vec::new();
        for one in arguments.positional() {
            let code = self.expr(one)?;
            kinds.push(code.kind);
            functions.push(format!("|| {}", code.text));
        }
        if settles {
            return settled();
        }
        let kind = kinds.into_iter().reduce(Type::join).unwrap_or(Type::Unknown);
        Ok(call("parallel", &[crate::value::wrapped("[", &functions, "]")], Type::list_of(kind)))
    }

    /// Returns the setting that replaces an environment variable.
    pub(super) fn environment(&mut self, name: &Expr, fallback: Option<&Expr>) -> Outcome {
        let Some(Value::Text(variable)) = Value::of(name, &self.plugin.constants) else {
            return Hindrance::err(NoteKind::Os, "an environment variable with a computed name");
        };
        let mut valve = names::snake_case(&names::variable(&variable)).to_lowercase();
        let existing = self.valves.keys().find(|key| key.to_lowercase() == valve).cloned();
        if let Some(existing) = existing {
            valve = existing;
        } else {
            self.effects.environment.insert(valve.clone(), variable);
        }
        let value = Code::atom(format!("Valves.{valve}"), Type::Text);
        match fallback {
            None | Some(Expr { kind: ExprKind::None, .. }) => Ok(value),
            Some(fallback) => {
                let fallback = self.expr(fallback)?;
                let text = format!("{} ?? {}", value.text, fallback.at(strength::COALESCE + 1));
                Ok(Code::new(text, strength::COALESCE, Type::Text))
            }
        }
    }

    /// Returns the code that writes a log line.
    pub(super) fn log(&mut self, name: &str, arguments: &Arguments<'_>) -> Outcome {
        let level = match name {
            "debug" | "trace" => "debug",
            "info" | "success" => "info",
            "warning" | "warn" => "warn",
            "error" | "exception" | "critical" | "fatal" => "error",
            "log" => "info",
            "getLogger" | "setLevel" | "addHandler" | "basicConfig" | "StreamHandler" | "Formatter"
            | "setFormatter" | "removeHandler" | "bind" | "propagate" | "isEnabledFor" | "hasHandlers"
            | "FileHandler" | "getLevelName" | "disable" | "addFilter" => {
                return Ok(Code::atom("()", Type::Logger));
            }
            // The other methods of a logger configure it.
            _ => return Ok(Code::atom("()", Type::Logger)),
        };
        let skip = usize::from(name == "log");
        let rest: Vec<&Expr> = arguments.positional().iter().skip(skip).copied().collect();
        let text = match rest.split_first() {
            None => "\"\"".to_owned(),
            Some((first, [])) => self.expr(first)?.text,
            Some((first, values)) => match first.as_text() {
                Some(text) if text.contains('%') => self.percent(text, values)?.text,
                Some(text) if text.contains("{}") => self.brace_format(text, values, &[])?.text,
                _ => self.expr(first)?.text,
            },
        };
        Ok(call(&format!("log::{level}"), &[text], Type::None))
    }

    /// Returns the code that calls a function of Open WebUI.
    fn host_function(&mut self, name: &str, path: &str, arguments: &Arguments<'_>) -> Outcome {
        let at = |place: usize| arguments.need(place, name);
        match name {
            "get_last_user_message" => {
                let messages = self.expr(at(0)?)?;
                let last = messages.method("last", &["\"user\"".to_owned()], Type::Unknown);
                Ok(Code::atom(format!("{}?.text", last.text), Type::Text).optional(true))
            }
            "get_last_assistant_message" => {
                let messages = self.expr(at(0)?)?;
                let last = messages.method("last", &["\"assistant\"".to_owned()], Type::Unknown);
                Ok(Code::atom(format!("{}?.text", last.text), Type::Text).optional(true))
            }
            "get_last_user_message_item" | "get_last_assistant_message_item" => {
                let role = if name.contains("user") { "\"user\"" } else { "\"assistant\"" };
                let messages = self.expr(at(0)?)?;
                Ok(messages.method("last", &[role.to_owned()], Type::Unknown))
            }
            "get_last_message" | "get_last_message_item" => {
                let messages = self.expr(at(0)?)?;
                Ok(messages.method("last", &[], Type::Unknown))
            }
            "get_system_message" => {
                let messages = self.expr(at(0)?)?;
                Ok(Code::atom(
                    format!("{}.find(|message| message.role == \"system\")", messages.owner()),
                    Type::Unknown,
                ))
            }
            "pop_system_message" => {
                let messages = self.expr(at(0)?)?;
                let of = messages.owner();
                let code = format!(
                    "[{of}.find(|message| message.role == \"system\"), {of}.filter(|message| message.role != \"system\")]"
                );
                Ok(Code::atom(code, Type::list()))
            }
            "add_or_update_system_message" | "update_system_message" => {
                let text = self.expr(at(0)?)?;
                let messages = self.expr(at(1)?)?;
                let append = arguments
                    .get(2, "append")
                    .is_some_and(|value| matches!(value.kind, ExprKind::Bool(true)));
                let method = if append || name == "update_system_message" {
                    "append_system"
                } else {
                    "prepend_system"
                };
                Ok(Code::atom(
                    format!("{{ {0}.{method}({1}); {0} }}", messages.owner(), text.text),
                    Type::list(),
                ))
            }
            "get_content_from_message" => {
                let message = self.expr(at(0)?)?;
                Ok(message.property("text", Type::Text))
            }
            "get_message_list" => self.expr(at(0)?),
            "generate_chat_completion" | "generate_chat_completions" => self.chat(arguments),
            _ => Hindrance::err(NoteKind::HostCode, format!("`{path}`")),
        }
    }

    fn math(&mut self, name: &str, arguments: &Arguments<'_>) -> Outcome {
        let value = self.expr(arguments.need(0, name)?)?;
        let number = match value.kind {
            Type::Float => value.clone(),
            _ => value.method("to_float", &[], Type::Float),
        };
        Ok(match name {
            "floor" => number.method("floor", &[], Type::Float).method("to_int", &[], Type::Int),
            "ceil" => number.method("ceiling", &[], Type::Float).method("to_int", &[], Type::Int),
            "sqrt" | "sin" | "cos" | "tan" | "exp" | "asin" | "acos" | "atan" => {
                number.method(name, &[], Type::Float)
            }
            "log" if arguments.count() == 1 => number.method("ln", &[], Type::Float),
            "log10" => number.method("log", &["10.0".to_owned()], Type::Float),
            "log2" => number.method("log", &["2.0".to_owned()], Type::Float),
            "radians" => number.method("to_radians", &[], Type::Float),
            "degrees" => number.method("to_degrees", &[], Type::Float),
            "isnan" => number.method("is_nan", &[], Type::Bool),
            "isinf" => number.method("is_infinite", &[], Type::Bool),
            "isfinite" => number.method("is_finite", &[], Type::Bool),
            "fabs" => number.method("abs", &[], Type::Float),
            "pow" => {
                let power = self.expr(arguments.need(1, name)?)?;
                let text = format!("{} ** {}", number.at(strength::POWER + 1), power.at(strength::POWER + 1));
                Code::new(text, strength::POWER, Type::Float)
            }
            "atan2" => {
                let other = self.expr(arguments.need(1, name)?)?;
                Code::atom(format!("atan({}, {})", number.text, other.text), Type::Float)
            }
            _ => return Hindrance::err(NoteKind::Package, format!("`math.{name}`")),
        })
    }

    fn random(&mut self, name: &str, arguments: &Arguments<'_>) -> Outcome {
        match name {
            "choice" => {
                let list = self.as_list(arguments.need(0, name)?)?;
                let kind = list.kind.element();
                Ok(call("random::choice", &[list.text], kind))
            }
            "randint" => {
                let (a, b) = (self.expr(arguments.need(0, name)?)?, self.expr(arguments.need(1, name)?)?);
                Ok(call("random::int", &[a.text, b.text], Type::Int))
            }
            "randrange" | "randbelow" if arguments.count() == 1 => {
                let end = self.expr(arguments.need(0, name)?)?;
                Ok(call(
                    "random::int",
                    &["0".to_owned(), format!("{} - 1", end.at(strength::ADD))],
                    Type::Int,
                ))
            }
            "random" => Ok(call("random::float", &[], Type::Float)),
            "uniform" => {
                let (a, b) = (self.expr(arguments.need(0, name)?)?, self.expr(arguments.need(1, name)?)?);
                let text = format!(
                    "{0} + random::float() * ({1} - {2})",
                    a.at(strength::ADD),
                    b.at(strength::ADD),
                    a.at(strength::ADD + 1)
                );
                Ok(Code::new(text, strength::ADD, Type::Float))
            }
            "token_hex" | "token_urlsafe" => Ok(Code::atom("text::replace(uuid(), \"-\", \"\")", Type::Text)),
            "shuffle" => {
                let list = self.expr(arguments.need(0, name)?)?;
                let code = format!(
                    "for at in 0..{0}.len() {{ {0}.push({0}.remove(random::int(0, {0}.len() - 1 - at))); }}",
                    list.owner()
                );
                Ok(Code::atom(code, Type::None))
            }
            "seed" => Ok(Code::atom("()", Type::Nothing)),
            _ => Hindrance::err(NoteKind::Package, format!("`random.{name}`")),
        }
    }

    /// Returns the code that calls a function of `urllib.parse`.
    fn address(&mut self, name: &str, arguments: &Arguments<'_>) -> Outcome {
        let value = self.expr(arguments.need(0, name)?)?;
        Ok(match name {
            "quote" => {
                let safe = match arguments.get(1, "safe") {
                    None => "/",
                    Some(safe) => match safe.as_text() {
                        Some(safe) => safe,
                        None => return Hindrance::err(NoteKind::Http, "`quote` with computed safe letters"),
                    },
                };
                let encoded = call("url::encode", &[value.text], Type::Text);
                match safe {
                    "" => encoded,
                    "/" => {
                        let parts = [encoded.text, "\"%2F\"".to_owned(), "\"/\"".to_owned()];
                        call("text::replace", &parts, Type::Text)
                    }
                    _ => return Hindrance::err(NoteKind::Http, "`quote` with other safe letters than `/`"),
                }
            }
            "quote_plus" => {
                let encoded = call("url::encode", &[value.text], Type::Text);
                let parts = [encoded.text, "\"%20\"".to_owned(), "\"+\"".to_owned()];
                call("text::replace", &parts, Type::Text)
            }
            "unquote_plus" => {
                let plain = call("text::replace", &[value.text, "\"+\"".into(), "\" \"".into()], Type::Text);
                call("url::decode", &[plain.text], Type::Text)
            }
            "unquote" => call("url::decode", &[value.text], Type::Text),
            "urlencode" => call("url::query", &[value.text], Type::Text),
            "urlparse" | "urlsplit" => call("url::parse", &[value.text], Type::Address),
            "parse_qs" => Code::atom(
                format!("url::parse(\"http://x/?\" + {}).query", value.at(strength::ADD + 1)),
                Type::Map,
            ),
            "urljoin" => {
                let path = self.expr(arguments.need(1, name)?)?;
                let text = format!("`${{{}}}/${{text::strip_prefix({}, \"/\")}}`", value.text, path.text);
                Code::atom(text, Type::Text)
            }
            _ => return Hindrance::err(NoteKind::Http, format!("`urllib.parse.{name}`")),
        })
    }
}

fn is_verb(name: &str) -> bool {
    matches!(name, "get" | "post" | "put" | "patch" | "delete" | "head" | "options" | "request" | "stream")
}
