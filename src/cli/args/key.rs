//! The arguments of `valvehouse key` and `valvehouse usage`.

use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// `valvehouse key`
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  valvehouse key create --name ci --user ann --models fast,smart --tokens-per-day 1M --expires 90d
  valvehouse key list
  valvehouse key                              a key and its hash for valvehouse.toml, which stores nothing
  valvehouse key --hash < key.txt             the hash of an existing key

Keys of `key create` are in the store, live at once on all hosts, and limited. Keys of valvehouse.toml are there:
  [server]
  keys = [\"sha256:…\", { key = \"sha256:…\", user = { id = \"ann\" } }]
  [admin]
  key = \"sha256:…\"
A new key is shown once; only its digest is stored."
)]
pub(in crate::cli) struct Key {
    #[command(subcommand)]
    pub(in crate::cli) action: Option<KeyAction>,
    /// Print the hash of a key from stdin instead of generating one
    #[arg(long)]
    pub(in crate::cli) hash: bool,
}

/// The keys in the store.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum KeyAction {
    /// Create a key, which is shown once
    #[command(after_help = "Examples:
  valvehouse key create --name ci --models fast,gpt-* --requests-per-minute 60
  valvehouse key create --name ann --user ann --group research --cost-per-month 50 --expires 90d
  valvehouse key create --name @research --cost-per-month 200    limits that the keys of a group share
  valvehouse key create --name bob --role tune     an operator who sets valves

Days and months are in UTC; costs are in the currency of `price` of [[models]]. A request is rejected with 429
once a limit is reached, so requests in progress can exceed it. With the first key, requests need one.")]
    Create(Box<CreateKey>),
    /// Change the rights of a key or a group, which keeps its secret and what it has used
    #[command(after_help = "Examples:
  valvehouse key change ci --tokens-per-day 2M
  valvehouse key change @research --cost-per-month 400 --expires 90d

Rights that are not named stay as they are.")]
    Change {
        /// The name of the key
        name: String,
        #[command(flatten)]
        rights: Box<RightsOfKey>,
    },
    /// List the keys with what they have used
    List,
    /// Show a key
    Show {
        /// The name of the key
        name: String,
    },
    /// Replace a key by a new one with the same rights; the old one is rejected at once
    Rotate {
        /// The name of the key
        name: String,
    },
    /// Revoke a key at once
    Revoke {
        /// The name of the key
        name: String,
    },
}

/// A new key.
#[derive(Debug, Args)]
pub(in crate::cli) struct CreateKey {
    /// The name, by which it is listed, rotated and revoked; `@NAME` creates a group
    #[arg(long)]
    pub(in crate::cli) name: String,
    /// Make it an operator's key: read everything, tune valves and switches, write scripts, or admin
    #[arg(long, value_enum)]
    pub(in crate::cli) role: Option<KeyRole>,
    #[command(flatten)]
    pub(in crate::cli) rights: RightsOfKey,
}

/// The rights of a key.
#[derive(Debug, Args)]
pub(in crate::cli) struct RightsOfKey {
    /// The id of the user whom the key identifies
    #[arg(long)]
    pub(in crate::cli) user: Option<String>,
    /// The group of the key, whose limits it shares
    #[arg(long)]
    pub(in crate::cli) group: Option<String>,
    /// The models that it can use; `gpt-*` allows all that begin so [default: all]
    #[arg(long, value_delimiter = ',', value_name = "MODEL,…")]
    pub(in crate::cli) models: Vec<String>,
    /// The maximum number of requests per minute
    #[arg(long, value_name = "NUMBER")]
    pub(in crate::cli) requests_per_minute: Option<u32>,
    /// The maximum number of tokens per day, such as 500k or 1M
    #[arg(long, value_name = "NUMBER", value_parser = amount)]
    pub(in crate::cli) tokens_per_day: Option<u64>,
    /// The maximum number of tokens per month
    #[arg(long, value_name = "NUMBER", value_parser = amount)]
    pub(in crate::cli) tokens_per_month: Option<u64>,
    /// The maximum cost per day
    #[arg(long, value_name = "NUMBER")]
    pub(in crate::cli) cost_per_day: Option<f64>,
    /// The maximum cost per month
    #[arg(long, value_name = "NUMBER")]
    pub(in crate::cli) cost_per_month: Option<f64>,
    /// The time from which it is rejected: 90d, 12h, or a date such as 2027-01-31 [default: never]
    #[arg(long, value_name = "TIME", value_parser = expiry)]
    pub(in crate::cli) expires: Option<Timestamp>,
}

/// The role of an operator's key.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(in crate::cli) enum KeyRole {
    Read,
    Tune,
    Write,
    Admin,
}

/// Parses a number with an optional unit: `1M`.
fn amount(text: &str) -> Result<u64, String> {
    let units = [("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)];
    let unit = units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
    let (number, factor) = unit.unwrap_or((text, 1));
    let number: Option<u64> = number.parse().ok();
    number
        .and_then(|number| number.checked_mul(factor))
        .ok_or_else(|| "expected a whole number such as 500, 500k or 1M".to_owned())
}

/// Parses the time of an expiry: a length from now, or the beginning of a day in UTC.
fn expiry(text: &str) -> Result<Timestamp, String> {
    if let Ok(date) = text.parse::<jiff::civil::Date>() {
        return date.to_zoned(TimeZone::UTC).map(|at| at.timestamp()).map_err(|error| error.to_string());
    }
    let span: Option<jiff::Span> = text.parse().ok();
    let at = span.and_then(|span| Timestamp::now().to_zoned(TimeZone::UTC).checked_add(span).ok());
    at.map(|at| at.timestamp())
        .ok_or_else(|| "expected a length such as 90d or 12h, or a date such as 2027-01-31".to_owned())
}

/// `valvehouse usage`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse usage                            the last 24 hours in all
  valvehouse usage --by user --since 7d
  valvehouse usage --by key,model --since 2027-01-01 --until 2027-02-01
  valvehouse usage --step 1h --since 2d --format json

Reads the store, to which hosts write every five seconds. Minutes are kept for a day, hours for 30 days, days for
three years. Costs are tokens times `price` of [[models]].")]
pub(in crate::cli) struct Usage {
    /// Group by these properties: key, user, model, provider, endpoint; or by plugin alone, for refusals
    #[arg(long, value_name = "NAME,…", default_value = "")]
    pub(in crate::cli) by: String,
    /// The beginning: a length before now such as 7d, a day, or a moment
    #[arg(long, value_name = "TIME", default_value = "24h")]
    pub(in crate::cli) since: String,
    /// The end, in the same forms [default: now]
    #[arg(long, value_name = "TIME")]
    pub(in crate::cli) until: Option<String>,
    /// Show periods of this length, such as 1h
    #[arg(long, value_name = "LENGTH")]
    pub(in crate::cli) step: Option<String>,
}
