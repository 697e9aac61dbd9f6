//! The keys that operators handed out, with their limits and what they have used.
//!
//! Hosts of a store count tokens and costs together: each adds to shared sums, which it sees at the next exchange
//! (`Kv`). A request is rejected once a sum has reached its limit, so a sum exceeds it by at most the requests in
//! progress and those of one exchange.

use super::digest::Digest;
use super::rate::{Asker, Rate};
use super::rights::{GROUP, KeyRecord, KeyRights};
use arc_swap::ArcSwap;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::time::Duration;
use valvehouse_json::Json;
use valvehouse_store::{COST_UNITS, Kv, StoredKey, now};

/// The owner of the sums; a script cannot have this id.
const OWNER: &str = "builtin:keys";
/// The minimum time between two records of the last use of a key, in milliseconds.
const USE_PAUSE: i64 = 60_000;

/// The keys that operators handed out, replaced whenever the store changes.
#[derive(Default)]
pub struct IssuedKeys {
    ring: ArcSwap<Ring>,
    // Each request asks for these several times.
    has_users: AtomicBool,
    has_operators: AtomicBool,
}

#[derive(Default)]
struct Ring {
    keys: HashMap<Digest, Arc<IssuedKey>>,
    groups: Vec<Arc<IssuedKey>>,
}

impl IssuedKeys {
    /// Applies the keys of the store. A key whose row is unchanged keeps the state of its limits.
    pub(crate) fn apply(&self, rows: &[StoredKey]) {
        let before = self.ring.load();
        let made = |row: &StoredKey, record: KeyRecord, group: Option<&Arc<IssuedKey>>| {
            let is_same = |key: &&Arc<IssuedKey>| {
                let same_group = key.group.as_ref().map(Arc::as_ptr) == group.map(Arc::as_ptr);
                key.name == row.name && key.record == record && same_group
            };
            let same = before.keys.values().chain(&before.groups).find(is_same).cloned();
            same.unwrap_or_else(|| Arc::new(IssuedKey::new(row, record, group.cloned())))
        };
        let read = |row: &StoredKey| KeyRecord::read(&row.name, &row.rights);
        let (groups, keys): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.name.starts_with(GROUP));
        // A group that cannot be read is there, and rejects its keys.
        let group = |row: &&StoredKey| (row.name.clone(), read(row).map(|record| made(row, record, None)));
        let groups: HashMap<_, _> = groups.iter().map(group).collect();
        let key = |row: &&StoredKey| {
            let (digest, record) = (Digest::configured(&row.digest)?, read(row)?);
            let name = record.rights.group.as_ref().map(|name| format!("{GROUP}{name}"));
            let group = match name.and_then(|name| groups.get(&name)) {
                Some(group) => Some(group.as_ref()?),
                None => None,
            };
            Some((digest, made(row, record, group)))
        };
        let count = keys.len();
        let keys: HashMap<_, _> = keys.iter().filter_map(key).collect();
        // A key that cannot be read may be any: that it is there must open nothing.
        let is_unread = keys.len() < count;
        let has =
            |test: fn(&KeyRights) -> bool| is_unread || keys.values().any(|key| test(&key.record.rights));
        let (has_users, has_operators) =
            (has(|rights| rights.role.is_none()), has(|rights| rights.role.is_some()));
        let groups = groups.into_values().flatten().collect();
        self.ring.store(Arc::new(Ring { keys, groups }));
        self.has_users.store(has_users, Release);
        self.has_operators.store(has_operators, Release);
    }

    /// Returns the key with a digest, also if it is revoked or has expired.
    pub(super) fn find(&self, digest: &Digest) -> Option<Arc<IssuedKey>> {
        self.ring.load().keys.get(digest).cloned()
    }

    /// Returns `true` if there is a key for models, or has been one: revoking the last key opens nothing.
    pub(super) fn has_users(&self) -> bool {
        self.has_users.load(Acquire)
    }

    /// Returns `true` if there is a key of an operator, or has been one.
    pub(super) fn has_operators(&self) -> bool {
        self.has_operators.load(Acquire)
    }
}

/// A key that an operator handed out.
pub struct IssuedKey {
    /// The name.
    pub name: String,
    /// The rights and the history of the key.
    pub record: KeyRecord,
    /// The user that it identifies, as a JSON object; null if there is none.
    pub user: Json,
    /// The group whose limits the key shares.
    group: Option<Arc<IssuedKey>>,
    rate: Option<Rate>,
    used_at: AtomicI64,
}

/// A limit of a key that is reached.
#[derive(Debug, Clone, PartialEq)]
pub struct ReachedKeyLimit {
    /// The key or the group that has the limit: "the key `ci`".
    pub holder: String,
    /// The limit in words: `1000 tokens per day`.
    pub limit: String,
    /// The time until the next request is allowed.
    pub wait: Duration,
    /// `true` for a sum of a day or a month, for which retrying soon has no use.
    pub is_budget: bool,
}

/// A limit and what is left of it, as clients are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftOver {
    /// The limit.
    pub limit: u64,
    /// The rest of it.
    pub remaining: u64,
    /// The time until all of it is available again.
    pub reset: Duration,
}

/// A measure whose sums are limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Measure {
    Tokens,
    /// In millionths.
    Cost,
}

/// A day or a month in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Period {
    Day,
    Month,
}

impl Period {
    const ALL: [Self; 2] = [Self::Day, Self::Month];

    fn word(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Month => "month",
        }
    }

    /// Returns the name of the period that contains a time, and the time until its end.
    fn of(self, at: Timestamp) -> (String, Duration) {
        let date = at.to_zoned(TimeZone::UTC).date();
        let (name, next): (_, Option<Date>) = match self {
            Self::Day => (date.to_string(), date.tomorrow().ok()),
            Self::Month => {
                (date.strftime("%Y-%m").to_string(), date.first_of_month().checked_add(1.month()).ok())
            }
        };
        let end = next.and_then(|next| next.to_zoned(TimeZone::UTC).ok()).map(|next| next.timestamp());
        let left = end.map_or(0, |end| end.as_millisecond().saturating_sub(at.as_millisecond()));
        (name, Duration::from_millis(u64::try_from(left).unwrap_or(0)))
    }
}

/// The use of a key in the current day and month.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct KeyUse {
    /// The tokens of today.
    pub tokens_today: u64,
    /// The tokens of this month.
    pub tokens_this_month: u64,
    /// The cost of today.
    pub cost_today: f64,
    /// The cost of this month.
    pub cost_this_month: f64,
}

impl KeyUse {
    /// Reads the sums of a key.
    pub fn of(name: &str, kv: &Kv) -> Self {
        let sum = |measure, period: Period| sum(name, measure, &period.of(Timestamp::now()).0, kv);
        Self {
            tokens_today: sum(Measure::Tokens, Period::Day),
            tokens_this_month: sum(Measure::Tokens, Period::Month),
            cost_today: sum(Measure::Cost, Period::Day) as f64 / COST_UNITS,
            cost_this_month: sum(Measure::Cost, Period::Month) as f64 / COST_UNITS,
        }
    }
}

fn place(name: &str, measure: Measure, period: &str) -> String {
    let measure = if measure == Measure::Tokens { "tokens" } else { "cost" };
    format!("{name} {measure} {period}")
}

fn sum(name: &str, measure: Measure, period: &str, kv: &Kv) -> u64 {
    let sum = kv.map(OWNER, "sums").get(&place(name, measure, period));
    sum.and_then(|sum| sum.as_i64()).and_then(|sum| u64::try_from(sum).ok()).unwrap_or(0)
}

impl IssuedKey {
    fn new(row: &StoredKey, record: KeyRecord, group: Option<Arc<Self>>) -> Self {
        let user = record.rights.user.as_deref().map_or(Json::Null, |id| Json::from([("id", id.into())]));
        let rate = record.rights.requests_per_minute.and_then(Rate::per_minute);
        let used_at = AtomicI64::new(row.used_at.unwrap_or(0));
        Self { name: row.name.clone(), record, user, group, rate, used_at }
    }

    /// Returns the key and its group.
    fn holders(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(self.group.as_deref())
    }

    /// Returns the key or the group in words.
    fn title(&self) -> String {
        match self.name.strip_prefix(GROUP) {
            Some(group) => format!("the group `{group}`"),
            None => format!("the key `{}`", self.name),
        }
    }

    /// Returns `true` if the key can use only some models.
    pub fn limits_models(&self) -> bool {
        self.holders().any(|holder| !holder.record.rights.models.is_empty())
    }

    /// Returns `true` if the key and its group allow a model.
    pub fn allows_model(&self, name: &str) -> bool {
        self.holders().all(|holder| holder.record.rights.allows_model(name))
    }

    /// Returns the reason why the key is rejected now; `None` if it is valid.
    pub fn refusal(&self) -> Option<String> {
        self.holders().find_map(|holder| {
            if let Some(at) = holder.record.revoked_at {
                return Some(format!("{} was revoked on {}", holder.title(), at.strftime("%Y-%m-%d")));
            }
            let expired = holder.record.rights.expires_at.filter(|at| *at <= Timestamp::now())?;
            Some(format!("{} expired on {}", holder.title(), expired.strftime("%Y-%m-%d")))
        })
    }

    /// Identifies the key in the limits of requests; a new key under the same name is the same client.
    fn asker(&self) -> Asker {
        Asker::Key(Digest::of(&format!("issued\n{}", self.name)))
    }

    /// Returns the limits of tokens and costs with their periods.
    fn budgets(&self) -> impl Iterator<Item = (Measure, Period, u64)> {
        let rights = &self.record.rights;
        let units = |cost: Option<f64>| cost.map(|cost| (cost * COST_UNITS) as u64);
        let limits = [
            (Measure::Tokens, Period::Day, rights.tokens_per_day),
            (Measure::Tokens, Period::Month, rights.tokens_per_month),
            (Measure::Cost, Period::Day, units(rights.cost_per_day)),
            (Measure::Cost, Period::Month, units(rights.cost_per_month)),
        ];
        limits.into_iter().filter_map(|(measure, period, limit)| Some((measure, period, limit?)))
    }

    /// Returns `true` if the key limits tokens or costs.
    pub fn is_metered(&self) -> bool {
        self.holders().any(|holder| holder.budgets().next().is_some())
    }

    /// Returns `true` if the key limits costs, so that models without a price cannot be used with it.
    pub fn limits_costs(&self) -> bool {
        self.holders().any(|holder| holder.budgets().any(|(measure, ..)| measure == Measure::Cost))
    }

    /// Counts a request for the key and its group.
    ///
    /// # Errors
    /// Returns the limit that is reached.
    pub fn admit(&self, kv: &Kv) -> Result<(), ReachedKeyLimit> {
        self.holders().try_for_each(|holder| holder.check_budgets(kv))?;
        self.holders().try_for_each(|holder| holder.take(kv))
    }

    fn check_budgets(&self, kv: &Kv) -> Result<(), ReachedKeyLimit> {
        let now = Timestamp::now();
        for (measure, period, limit) in self.budgets() {
            let (name, left) = period.of(now);
            if sum(&self.name, measure, &name, kv) >= limit {
                let amount = match measure {
                    Measure::Tokens => format!("{limit} tokens"),
                    Measure::Cost => format!("a cost of {}", limit as f64 / COST_UNITS),
                };
                let limit = format!("{amount} per {}", period.word());
                return Err(ReachedKeyLimit { holder: self.title(), limit, wait: left, is_budget: true });
            }
        }
        Ok(())
    }

    fn take(&self, kv: &Kv) -> Result<(), ReachedKeyLimit> {
        let Some(rate) = &self.rate else { return Ok(()) };
        rate.take(self.asker(), kv).map_err(|wait| ReachedKeyLimit {
            holder: self.title(),
            limit: format!("{} requests per minute", rate.requests),
            wait,
            is_budget: false,
        })
    }

    /// Adds the tokens of a request and their cost in millionths to the sums of the key and its group. Returns the number of
    /// the write ([`Kv::want_flush`]).
    pub fn charge(&self, [prompt, completion]: [u64; 2], cost: u64, kv: &Kv) -> Option<u64> {
        self.holders().for_each(|holder| holder.add(prompt.saturating_add(completion), cost, kv));
        // Written at once: a host that dies must not forget what it has counted.
        kv.want_flush()
    }

    fn add(&self, tokens: u64, cost: u64, kv: &Kv) {
        let now = Timestamp::now();
        let sums = kv.map(OWNER, "sums");
        for (measure, by) in [(Measure::Tokens, tokens), (Measure::Cost, cost)] {
            for period in Period::ALL.into_iter().filter(|_| by > 0) {
                let (name, left) = period.of(now);
                let ttl = left + Duration::from_secs(24 * 60 * 60);
                if let Err(error) = sums.incr(&place(&self.name, measure, &name), &by.into(), Some(ttl)) {
                    tracing::error!(key = self.name, "cannot count the use of a key: {error}");
                }
            }
        }
    }

    /// Returns what is left of the limit of requests per minute.
    pub fn requests_left(&self) -> Option<LeftOver> {
        let left = self.holders().filter_map(|holder| {
            let rate = holder.rate.as_ref()?;
            let (remaining, reset) = rate.left(holder.asker());
            Some(LeftOver { limit: rate.requests.into(), remaining: remaining.into(), reset })
        });
        left.min_by_key(|left| left.remaining)
    }

    /// Returns what is left of the limit of tokens that is nearest.
    pub fn tokens_left(&self, kv: &Kv) -> Option<LeftOver> {
        let left = self.holders().flat_map(|holder| {
            let budgets = holder.budgets().filter(|(measure, ..)| *measure == Measure::Tokens);
            budgets.map(|(measure, period, limit)| {
                let (name, reset) = period.of(Timestamp::now());
                let remaining = limit.saturating_sub(sum(&holder.name, measure, &name, kv));
                LeftOver { limit, remaining, reset }
            })
        });
        left.min_by_key(|left| left.remaining)
    }

    /// Returns the time of a use that is due to be recorded.
    pub fn use_to_record(&self) -> Option<i64> {
        let (now, last) = (now(), self.used_at.load(Relaxed));
        let is_due = now.saturating_sub(last) >= USE_PAUSE;
        (is_due && self.used_at.compare_exchange(last, now, Relaxed, Relaxed).is_ok()).then_some(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(keys: &IssuedKeys, rights: &str) -> Arc<IssuedKey> {
        let record =
            format!(r#"{{"rights":{rights},"created_at":"2027-01-31T12:00:00Z","created_by":"ann"}}"#);
        let rights = Json::parse(record.as_bytes()).unwrap();
        keys.apply(&[StoredKey { name: "ci".into(), digest: "vh-1".into(), rights, used_at: None }]);
        keys.find(&Digest::of("vh-1")).unwrap()
    }

    #[test]
    fn each_budget_of_a_key_ends_its_use() {
        for (right, limit) in [
            ("tokens_per_day", "3 tokens per day"),
            ("tokens_per_month", "3 tokens per month"),
            ("cost_per_day", "a cost of 3 per day"),
            ("cost_per_month", "a cost of 3 per month"),
        ] {
            let (kv, key) = (Kv::default(), key(&IssuedKeys::default(), &format!(r#"{{"{right}":3}}"#)));
            assert_eq!(key.admit(&kv), Ok(()), "{right}");
            key.charge([1_000_000, 2_000_000], 3_000_000, &kv);
            assert_eq!(key.admit(&kv).map_err(|reached| reached.limit), Err(limit.to_owned()));
        }
    }

    #[test]
    fn a_key_is_refused_from_its_end_on() {
        let refusal =
            |end: &str| key(&IssuedKeys::default(), &format!(r#"{{"expires_at":"{end}"}}"#)).refusal();
        assert_eq!(refusal("2000-01-01T00:00:00Z").as_deref(), Some("the key `ci` expired on 2000-01-01"));
        assert_eq!(refusal("9000-01-01T00:00:00Z"), None);
    }
}
