//! The log on stderr.

use super::args::Line;
use std::fmt;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;
use valvehouse_core::trace::{ACCESS, RequestScope};
use valvehouse_json::Json;
use valvehouse_terminal::{Console, Paint, clean, timestamp};

/// The variable that sets the log filter, in the syntax of `RUST_LOG`.
const VARIABLE: &str = "VALVEHOUSE_LOG";

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
        let mut fields = Fields::default();
        event.record(&mut fields);
        if let Some(trace) = RequestScope::current_trace() {
            fields.0.push(("request", trace.id.as_str().into()));
        }
        if self.0.is_json() {
            let head =
                [("timestamp", timestamp().into()), ("level", metadata.level().as_str().into())].into_iter();
            let fields = head.chain(fields.0).chain([("target", metadata.target().into())]);
            return writeln!(
                to,
                "{}",
                Json::Object(fields.map(|(name, value)| (name.into(), value)).collect())
            );
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
        // Further lines belong to the message.
        let message = match metadata.target() {
            ACCESS => {
                fields.take("message");
                ["method", "path", "status"].map(|name| fields.take(name)).join(" ")
            }
            _ => fields.take("message"),
        };
        let message = clean(&message).replace('\n', "\n    ");
        if metadata.target() == "script" {
            let plugin = fields.take("plugin");
            return writeln!(to, "{stamp}{}: {level}{message}{}", paint.bold(&plugin), fields.shown(paint));
        }
        writeln!(to, "{stamp}{level}{message}{}", fields.shown(paint))
    }
}

/// The fields of an event.
#[derive(Default)]
struct Fields(Vec<(&'static str, Json)>);

impl Fields {
    /// Removes a field and returns its text.
    fn take(&mut self, name: &str) -> String {
        let place = self.0.iter().position(|(own, _)| *own == name);
        place.map_or_else(String::new, |place| text(&self.0.remove(place).1))
    }

    /// Returns the fields in parentheses, or nothing. A value with spaces is quoted, so that it is not taken for fields.
    fn shown(&self, paint: Paint) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        let field = |(name, value): &(&str, Json)| match text(value) {
            text if text.contains(char::is_whitespace) => format!("{name}={}", Json::from(text)),
            text => format!("{name}={text}"),
        };
        let fields: Vec<String> = self.0.iter().map(field).collect();
        format!(" {}", paint.dim(&format!("({})", clean(&fields.join(" ")))))
    }
}

fn text(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), |text| text.to_string())
}

impl Visit for Fields {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.push((field.name(), value.into()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.push((field.name(), value.into()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.push((field.name(), value.into()));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.push((field.name(), value.into()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push((field.name(), format!("{value:?}").into()));
    }
}
