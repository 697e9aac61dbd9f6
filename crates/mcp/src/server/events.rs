//! Events of plugins as notifications: progress if the client follows it, else log messages.

use rmcp::RoleServer;
use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken};
use rmcp::service::Peer;
use serde_json::{Value, json};
use tokio::sync::broadcast;
use valvehouse_json::Json;

/// The channel for the events of a call to its client.
pub(super) struct Notifier {
    pub(super) peer: Peer<RoleServer>,
    pub(super) token: Option<ProgressToken>,
    /// The minimum level of log messages; `None` sends none.
    pub(super) level: Option<LoggingLevel>,
    /// The name of the tool, which is the default logger.
    pub(super) logger: String,
    /// The channel for URIs of changed resources.
    pub(super) updates: broadcast::Sender<String>,
    /// The progress so far, which never decreases.
    pub(super) progress: f64,
}

impl Notifier {
    /// Sends an event `{type, data}`. A disconnected client misses it.
    pub(super) async fn send(&mut self, event: &Json) {
        let kind = event.text_or_empty("type");
        let data = event.field("data");
        match kind.as_str() {
            "status" | "progress" if self.token.is_some() => self.send_progress(&data).await,
            "resource_updated" => {
                if let Some(uri) = data.text("uri") {
                    // There may be no receivers.
                    let _ = self.updates.send(uri.into());
                }
            }
            kind => self.send_line(kind, &data).await,
        }
    }

    async fn send_progress(&mut self, data: &Json) {
        let Some(token) = self.token.clone() else { return };
        let next = match data.get("progress").and_then(|progress| progress.as_f64()) {
            Some(progress) if progress > self.progress => progress,
            // Progress must not decrease.
            Some(_) => return,
            None => self.progress.max(0.0) + 1.0,
        };
        self.progress = next;
        let mut param = ProgressNotificationParam::new(token, next);
        param.total = data.get("total").and_then(|total| total.as_f64());
        param.message = data.text("description").or_else(|| data.text("message")).map(String::from);
        if let Err(error) = self.peer.notify_progress(param).await {
            tracing::debug!("cannot send progress to the client: {error}");
        }
    }

    async fn send_line(&self, kind: &str, data: &Json) {
        let word = data.text("level").unwrap_or_else(|| data.text_or_empty("type"));
        let level = level_of(&word);
        if self.level.is_none_or(|least| rank(level) < rank(least)) {
            return;
        }
        let text = ["data", "content", "message", "description"].into_iter().find_map(|key| data.get(key));
        let data = match (kind, text) {
            ("log" | "notification" | "status" | "progress", Some(text)) => Value::from(&text),
            _ => json!({ "type": kind, "data": Value::from(data) }),
        };
        let mut param = LoggingMessageNotificationParam::new(level, data);
        param.logger = Some(self.logger.clone());
        let sent = self.peer.notify_logging_message(param).await;
        if let Err(error) = sent {
            tracing::debug!("cannot send a log message to the client: {error}");
        }
    }
}

/// Returns the level that an event names; `info` for unknown ones.
fn level_of(word: &str) -> LoggingLevel {
    match word {
        "debug" => LoggingLevel::Debug,
        "notice" => LoggingLevel::Notice,
        "warning" | "warn" => LoggingLevel::Warning,
        "error" => LoggingLevel::Error,
        "critical" => LoggingLevel::Critical,
        "alert" => LoggingLevel::Alert,
        "emergency" => LoggingLevel::Emergency,
        _ => LoggingLevel::Info,
    }
}

/// Returns the rank of a level, from 0.
pub(super) fn rank(level: LoggingLevel) -> u8 {
    match level {
        LoggingLevel::Debug => 0,
        LoggingLevel::Info => 1,
        LoggingLevel::Notice => 2,
        LoggingLevel::Warning => 3,
        LoggingLevel::Error => 4,
        LoggingLevel::Critical => 5,
        LoggingLevel::Alert => 6,
        LoggingLevel::Emergency => 7,
    }
}
