//! The log on stderr.

use super::args::Line;
use std::fmt::{self, Write as _};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;
use valvehouse_core::trace::RequestScope;
use valvehouse_json::Json;
use valvehouse_terminal::{Console, clean, timestamp};

/// The variable that sets the log filter, in the syntax of `RUST_LOG`.
const VARIABLE: &str = "VALVEHOUSE_LOG";
/// The maximum length of a text in a line, in bytes: clients and services choose some texts.
const MAX_TEXT: usize = 16 << 10;

/// Starts logging.
pub(super) fn start(line: &Line, out: &Console) {
    // If the command shows the log lines and errors of scripts itself, only warnings of the host are logged.
    let is_shown = line.command.is_shown();
    // Scripts may fail on purpose in tests.
    let is_tested = line.command.is_tested();
    let usual = match (line.global.quiet, line.global.verbose) {
        (_, 0) if is_tested => "off",
        (true, _) => "error,rmcp=off",
        (false, 0) if is_shown => "warn,script=off,valvehouse_core::context::turn=off,rmcp=off",
        // The mount reports connection errors itself. The host traces requests itself, so spans would only
        // cost time.
        (false, 0) => "warn,valvehouse=info,valvehouse::turn=off,script=info,rmcp=off",
        (false, 1) => "warn,valvehouse=debug,script=debug",
        (false, _) => "debug,valvehouse=trace,script=trace",
    };
    let directives = std::env::var(VARIABLE).ok().filter(|words| !words.trim().is_empty());
    let (filter, wrong) = match directives.as_deref().map(EnvFilter::try_new) {
        None => (EnvFilter::new(usual), None),
        Some(Ok(filter)) => (filter, None),
        Some(Err(error)) => (EnvFilter::new(usual), Some(error)),
    };
    let (writer, lines) = (out.clone(), Lines(out.clone()));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(move || writer.log());
    // In tests, the first subscriber stays in use.
    let _ = builder.event_format(lines).try_init();
    if let Some(error) = wrong {
        tracing::warn!("invalid {VARIABLE}, using the default log level: {error}");
    }
}

/// The format of lines. In text: `turn_limit: text` for those of scripts, `warning: text (field=value)` for those of
/// the host, after time and level if the command runs for long; in JSON, an object of all fields. A line that is
/// written for a request has its id.
struct Lines(Console);

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let metadata = event.metadata();
        let is_json = self.0.is_json();
        let mut parts = Parts { form: Form::of(metadata.target(), is_json), ..Parts::default() };
        event.record(&mut parts);
        if let Some(trace) = RequestScope::current_trace() {
            parts.add_text("request", &trace.id);
        }
        if is_json {
            let (time, level) = (timestamp(), metadata.level().as_str());
            let (fields, target) = (parts.fields, Json::from(metadata.target()));
            return writeln!(to, r#"{{"timestamp":"{time}","level":"{level}"{fields},"target":{target}}}"#);
        }
        let (paint, stamp) = (self.0.talk(), self.0.stamp(metadata.level().as_str()));
        let level = match *metadata.level() {
            Level::INFO => String::new(),
            _ if !stamp.is_empty() => String::new(),
            Level::ERROR => paint.red("error: "),
            Level::WARN => paint.yellow("warning: "),
            Level::DEBUG => paint.dim("debug: "),
            Level::TRACE => paint.dim("trace: "),
        };
        to.write_str(&stamp)?;
        if parts.form == Form::Script {
            write!(to, "{}: ", paint.bold(&parts.plugin))?;
        }
        to.write_str(&level)?;
        // Further lines belong to the message.
        to.write_str(&clean(&parts.message).replace('\n', "\n    "))?;
        if !parts.fields.is_empty() {
            write!(to, " {}", paint.dim(&format!("({})", clean(&parts.fields))))?;
        }
        to.write_char('\n')
    }
}

/// The form of a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Form {
    Json,
    /// The plugin comes before the message.
    Script,
    #[default]
    Host,
}

impl Form {
    fn of(target: &str, is_json: bool) -> Self {
        match target {
            _ if is_json => Self::Json,
            "script" => Self::Script,
            _ => Self::Host,
        }
    }
}

/// The texts that are quoted in a part of a line.
enum Quoting {
    Never,
    WithSpaces,
    Always,
}

/// The parts of a line, in which the values of an event are written one after the other.
#[derive(Default)]
struct Parts {
    form: Form,
    message: String,
    plugin: String,
    fields: String,
}

impl Parts {
    /// Starts a value. Returns the part in which it is written, and which texts are quoted there.
    fn begin(&mut self, name: &str) -> (&mut String, Quoting) {
        match (self.form, name) {
            (Form::Json, _) => {
                self.fields.extend([",\"", name, "\":"]);
                (&mut self.fields, Quoting::Always)
            }
            (_, "message") => (&mut self.message, Quoting::Never),
            (Form::Script, "plugin") => (&mut self.plugin, Quoting::Never),
            _ => {
                self.fields.extend([if self.fields.is_empty() { "" } else { " " }, name, "="]);
                (&mut self.fields, Quoting::WithSpaces)
            }
        }
    }

    /// Adds a text. One with spaces is quoted among the fields, so that it is not taken for several.
    fn add_text(&mut self, name: &str, value: &str) {
        let cut = value.floor_char_boundary(MAX_TEXT);
        let cut = (cut < value.len()).then(|| format!("{}… ({} bytes)", &value[..cut], value.len()));
        let value = cut.as_deref().unwrap_or(value);
        let (part, quoted) = self.begin(name);
        match quoted {
            Quoting::WithSpaces if !value.contains(char::is_whitespace) => part.push_str(value),
            Quoting::Never => part.push_str(value),
            Quoting::Always | Quoting::WithSpaces => part.push_str(&Json::from(value).to_string()),
        }
    }

    /// Adds a number or a truth value.
    fn add(&mut self, name: &str, value: impl fmt::Display) {
        // A text takes any value.
        let _ = write!(self.begin(name).0, "{value}");
    }
}

impl Visit for Parts {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field.name(), value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field.name(), value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field.name(), value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add_text(field.name(), value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add_text(field.name(), &format!("{value:?}"));
    }
}
