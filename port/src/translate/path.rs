//! Names and values of imported modules.

use super::context::{Hindrance, Outcome, Translator};
use crate::code::Code;
use crate::kinds::Type;
use crate::names;
use crate::python::Expr;
use crate::report::NoteKind;
use crate::text::{first_name, last_name};

impl Translator<'_> {
    /// Returns the full name of a dotted path that starts with an import, or an empty text for any other
    /// expression.
    pub(super) fn full_path_or_empty(&self, expr: &Expr) -> String {
        self.full_path(expr).unwrap_or_default()
    }

    /// Returns the full name of a dotted path that starts with an import.
    pub(super) fn full_path(&self, expr: &Expr) -> Option<String> {
        let path = expr.path()?;
        let (root, rest) =
            path.split_once('.').map_or((path.as_str(), None), |(root, rest)| (root, Some(rest)));
        if self.scope.variables.contains_key(root) {
            return None;
        }
        let full = self.plugin.imports.get(root)?;
        Some(match rest {
            Some(rest) => format!("{full}.{rest}"),
            None => full.clone(),
        })
    }

    /// Returns the code of a module's value.
    pub(super) fn imported(&mut self, path: &str) -> Outcome {
        let text = |text: &str| Ok(Code::atom(names::quoted(text), Type::Text));
        match path {
            "math.pi" => Ok(Code::atom("PI()", Type::Float)),
            "math.e" => Ok(Code::atom("E()", Type::Float)),
            "math.inf" => Ok(Code::atom("1.0e308", Type::Float)),
            "sys.maxsize" => Ok(Code::atom(i64::MAX.to_string(), Type::Int)),
            "string.punctuation" => text("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"),
            "string.ascii_letters" => text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"),
            "string.ascii_lowercase" => text("abcdefghijklmnopqrstuvwxyz"),
            "string.ascii_uppercase" => text("ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
            "string.digits" => text("0123456789"),
            "string.whitespace" => text(" \t\n\r"),
            "os.linesep" => text("\n"),
            "os.sep" => text("/"),
            "datetime.timezone.utc" | "datetime.UTC" | "pytz.utc" | "pytz.UTC" => text("UTC"),
            "re.I" | "re.IGNORECASE" => text("i"),
            "re.S" | "re.DOTALL" => text("s"),
            "re.M" | "re.MULTILINE" => text("m"),
            "re.X" | "re.VERBOSE" => text("x"),
            "re.U" | "re.UNICODE" | "re.A" | "re.ASCII" => text(""),
            "open_webui.env.SRC_LOG_LEVELS" => Ok(Code::atom("#{}", Type::Map)),
            "open_webui.env.GLOBAL_LOG_LEVEL" => text("INFO"),
            "open_webui.constants.TASKS" => Ok(Code::atom("#{}", Type::Map)),
            _ if path.starts_with("open_webui.constants.TASKS.") => text(&last_name(path).to_lowercase()),
            _ if path.starts_with("http.HTTPStatus.")
                || path.starts_with("fastapi.status.")
                || path.starts_with("starlette.status.") =>
            {
                let name = path.rsplit('.').find(|part| *part != "value");
                match name.and_then(status) {
                    Some(code) => Ok(Code::atom(code.to_string(), Type::Int)),
                    None => Hindrance::err(NoteKind::Package, format!("`{path}`")),
                }
            }
            "loguru.logger" | "logging" | "structlog" => Ok(Code::atom("()", Type::Logger)),
            _ if path.starts_with("logging.") => Ok(Code::atom("()", Type::Logger)),
            _ => Hindrance::err(kind_of(path), format!("`{path}`")),
        }
    }
}

fn status(name: &str) -> Option<u16> {
    if let Some(code) = name.strip_prefix("HTTP_") {
        return code.split('_').next()?.parse().ok();
    }
    Some(match name {
        "OK" => 200,
        "BAD_REQUEST" => 400,
        "UNAUTHORIZED" => 401,
        "FORBIDDEN" => 403,
        "NOT_FOUND" => 404,
        "TOO_MANY_REQUESTS" => 429,
        "INTERNAL_SERVER_ERROR" => 500,
        "BAD_GATEWAY" => 502,
        "SERVICE_UNAVAILABLE" => 503,
        _ => return None,
    })
}

/// Returns the kind of note for a module that has no counterpart.
pub(super) fn kind_of(path: &str) -> NoteKind {
    match first_name(path) {
        "open_webui" | "apps" | "main" | "backend" => NoteKind::HostCode,
        "os" | "sys" | "pathlib" | "io" | "shutil" | "subprocess" | "tempfile" | "platform" | "glob"
        | "builtins" => NoteKind::Os,
        "asyncio" | "threading" | "concurrent" | "queue" | "multiprocessing" | "contextvars" => {
            NoteKind::Concurrency
        }
        "requests" | "aiohttp" | "httpx" | "urllib" | "urllib3" | "http" | "websockets" | "fastapi"
        | "starlette" => NoteKind::Http,
        "base64" | "hashlib" | "hmac" | "struct" | "binascii" => NoteKind::Bytes,
        "re" => NoteKind::Pattern,
        _ => NoteKind::Package,
    }
}
