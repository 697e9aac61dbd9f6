//! Durations as scripts write them: `"90s"`, `"10m"`, `"1h30m"`.

use std::time::Duration;

/// The shortest and the longest duration.
pub(crate) const RANGE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30 * 86_400)];

/// Reads a duration: numbers with the units `s`, `m`, `h` and `d`, the larger ones first.
///
/// # Errors
/// Returns what it is instead: no duration, or one outside of 1 second to 30 days.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration");
    let mut rest = text.trim();
    let (mut seconds, mut last) = (0_u64, u64::MAX);
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        let mut behind = rest[digits..].chars();
        let unit = match behind.next() {
            Some('s') => 1,
            Some('m') => 60,
            Some('h') => 3_600,
            Some('d') => 86_400,
            _ => return Err(wrong()),
        };
        if unit >= last {
            return Err(wrong());
        }
        (rest, last) = (behind.as_str(), unit);
        seconds = seconds.saturating_add(number.saturating_mul(unit));
    }
    let duration = Duration::from_secs(seconds);
    match last {
        u64::MAX => Err(wrong()),
        _ if duration < RANGE[0] || duration > RANGE[1] => {
            Err(format!("{text:?} is not from 1 second to 30 days"))
        }
        _ => Ok(duration),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_numbers_with_units() {
        let seconds = |text: &str| parse(text).map(|duration| duration.as_secs());
        assert_eq!(seconds("10m"), Ok(600));
        assert_eq!(seconds(" 1h30m "), Ok(5_400));
        assert_eq!(seconds("1d2h3m4s"), Ok(93_784));
        assert_eq!(seconds("30d"), Ok(30 * 86_400));
        for text in ["", "10", "m", "10 m", "10min", "-1s", "1.5h", "30m1h", "1m1m", "10ms", "１m", "9é"] {
            assert!(seconds(text).unwrap_err().contains("is not a duration"), "{text}");
        }
        for text in ["0s", "31d", "99999999999999999999d", "18446744073709551615d"] {
            let why = seconds(text).unwrap_err();
            assert!(why.contains("1 second to 30 days") || why.contains("is not a duration"), "{why}");
        }
    }
}
