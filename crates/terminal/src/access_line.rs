//! The lines of the access log on stderr.

use crate::output::{Console, LINE, clean, timestamp};
use std::io::Write as _;
use valvehouse_core::trace::{ACCESS, AccessLine};
use valvehouse_json::Json;

impl Console {
    /// Writes a line of the access log: in text `METHOD path status (name=value …)`, otherwise an object of all fields.
    pub fn access(&self, line: &AccessLine<'_>) {
        let level = line.level.as_str();
        let text = match self.is_json() {
            true => {
                let mut fields = Fields { text: String::with_capacity(LINE), is_json: true };
                fields.text.extend(["{\"timestamp\":\"", &timestamp(), "\",\"level\":\"", level, "\""]);
                fields.add_text("message", Some("request"));
                fields.add_text("method", Some(line.method));
                fields.add_text("path", Some(line.path));
                fields.add_number("status", line.status.map(u64::from));
                fields.add_rest(line);
                fields.add_text("target", Some(ACCESS));
                fields.text + "}\n"
            }
            false => {
                let (dim, plain) = self.talk().dim_marks();
                let mut fields = Fields { text: self.stamp(level), is_json: false };
                fields.text.extend([line.method, " ", &clean(line.path)]);
                if let Some(status) = line.status {
                    fields.push_number(" ", status.into());
                }
                fields.text.extend([" ", dim, "("]);
                fields.add_rest(line);
                fields.text.extend([")", plain, "\n"]);
                fields.text
            }
        };
        // A reader of stderr that is gone is nobody's fault.
        let _ = self.log().write_all(text.as_bytes());
    }
}

/// The fields of a line, one after the other.
struct Fields {
    text: String,
    is_json: bool,
}

impl Fields {
    /// Adds the fields after the status.
    fn add_rest(&mut self, line: &AccessLine<'_>) {
        self.add_text("user", line.user);
        self.add_text("model", line.model);
        self.add_text("provider", line.provider);
        self.add_text("key", line.key);
        self.add_number("tokens_in", line.tokens_in);
        self.add_number("tokens_out", line.tokens_out);
        self.add_number("ms", Some(line.ms));
        self.add_number("first_ms", line.first_ms);
        self.add_text("ended_by", line.ended_by);
        self.add_text("outcome", line.outcome);
        if let Some(disconnected) = line.disconnected {
            self.begin("disconnected");
            self.text.push_str(if disconnected { "true" } else { "false" });
        }
        self.add_text("request", line.request);
    }

    fn begin(&mut self, name: &str) {
        match self.is_json {
            true => self.text.extend([",\"", name, "\":"]),
            false if self.text.ends_with('(') => self.text.extend([name, "="]),
            false => self.text.extend([" ", name, "="]),
        }
    }

    /// Adds a text. One with spaces is quoted, so that it is not taken for several.
    fn add_text(&mut self, name: &str, value: Option<&str>) {
        let Some(value) = value else { return };
        self.begin(name);
        let is_plain =
            value.bytes().all(|byte| (b'!'..=b'~').contains(&byte) && !matches!(byte, b'"' | b'\\'));
        match (self.is_json, is_plain) {
            (true, true) => self.text.extend(["\"", value, "\""]),
            (false, true) => self.text.push_str(value),
            (false, false) if !value.contains(char::is_whitespace) => self.text.push_str(&clean(value)),
            (_, false) => self.text.push_str(&Json::from(value).to_string()),
        }
    }

    fn add_number(&mut self, name: &str, value: Option<u64>) {
        if let Some(value) = value {
            self.begin(name);
            self.push_number("", value);
        }
    }

    fn push_number(&mut self, before: &str, value: u64) {
        self.text.extend([before, itoa::Buffer::new().format(value)]);
    }
}
