//! The log on stderr.

use super::args::Line;
use std::fmt::{self, Write as _};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;
use valvehouse_terminal::{Console, Paint, clean};

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
    let writer = out.clone();
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(move || writer.log());
    // In tests, the first subscriber stays in use.
    let _ = if out.is_json() {
        builder.json().flatten_event(true).try_init()
    } else {
        builder.event_format(Human { paint: out.talk() }).try_init()
    };
    if let Some(error) = wrong {
        tracing::warn!("invalid {VARIABLE}, using the default log level: {error}");
    }
}

/// The text format: `turn_limit: text` for log lines of scripts, `warning: text (field=value)` for those of
/// the host.
struct Human {
    paint: Paint,
}

impl<S, N> FormatEvent<S, N> for Human
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut parts = Parts::default();
        event.record(&mut parts);
        let paint = self.paint;
        let level = match *event.metadata().level() {
            Level::ERROR => paint.red("error: "),
            Level::WARN => paint.yellow("warning: "),
            Level::INFO => String::new(),
            Level::DEBUG => paint.dim("debug: "),
            Level::TRACE => paint.dim("trace: "),
        };
        // Further lines belong to the message.
        let message = clean(&parts.message).replace('\n', "\n    ");
        if event.metadata().target() == "script" {
            return writeln!(to, "{}: {level}{message}", paint.bold(&parts.plugin));
        }
        if !parts.plugin.is_empty() {
            parts.others.insert_str(0, &format!(" plugin={}", parts.plugin));
        }
        let others = clean(&parts.others).replace('\n', " ");
        let others = others.trim_start();
        if others.is_empty() {
            writeln!(to, "{level}{message}")
        } else {
            writeln!(to, "{level}{message} {}", paint.dim(&format!("({others})")))
        }
    }
}

/// The message, the plugin, and the other fields of an event.
#[derive(Default)]
struct Parts {
    message: String,
    plugin: String,
    others: String,
}

impl Visit for Parts {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            "plugin" => write!(self.plugin, "{value:?}"),
            name => write!(self.others, " {name}={value:?}"),
        };
    }
}
