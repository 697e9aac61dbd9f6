//! Time zones by their IANA name.

use super::argument::{RhaiResultOf, fail};
use jiff::tz::{TimeZone, db};

/// The zone of this name, such as `Europe/Berlin`.
pub(super) fn find(function: &str, name: &str) -> RhaiResultOf<TimeZone> {
    TimeZone::get(name).map_err(|_| {
        let nearest = nearest(name).map_or(String::new(), |zone| format!("; did you mean `{zone}`?"));
        fail(function, format!("unknown time zone `{}`{nearest}", name.chars().take(60).collect::<String>()))
    })
}

/// The known name most like this one, compared as a whole and by its city.
fn nearest(name: &str) -> Option<String> {
    let name: String =
        name.chars().take(60).map(|c| if c == ' ' { '_' } else { c.to_ascii_lowercase() }).collect();
    let alike = |zone: &str| {
        let zone = zone.to_ascii_lowercase();
        let city = zone.rsplit('/').next().unwrap_or(&zone);
        strsim::jaro_winkler(&zone, &name).max(strsim::jaro_winkler(city, &name))
    };
    let zones = db().available().map(|zone| (alike(zone.as_str()), zone.as_str().to_owned()));
    let best = zones.max_by(|a, b| a.0.total_cmp(&b.0).then_with(|| b.1.cmp(&a.1)))?;
    (best.0 > 0.7).then_some(best.1)
}
