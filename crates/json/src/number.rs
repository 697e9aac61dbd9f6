//! Numbers that preserve their spelling.

/// A JSON number. The spelling is stored only if writing the number would change it.
#[derive(Clone, Debug)]
pub enum Number {
    /// An integer of 64 bits.
    Int(i64),
    /// An integer above the signed range.
    Unsigned(u64),
    /// A finite number with a fraction or an exponent.
    Float(f64),
    /// The original spelling, such as `1e2`, `1.10`, or more digits than fit in 64 bits.
    Raw(Box<str>),
}

impl Number {
    /// Creates a number from an unsigned integer.
    pub fn from_u64(value: u64) -> Self {
        i64::try_from(value).map_or(Self::Unsigned(value), Self::Int)
    }

    /// Creates a number from text that was verified to be a JSON number.
    pub(super) fn from_spelling(text: &str) -> Self {
        if text != "-0" {
            if let Ok(value) = text.parse() {
                return Self::Int(value);
            }
            if let Ok(value) = text.parse() {
                return Self::Unsigned(value);
            }
        }
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() && (is_shortest(text, value) || float_text(value) == text) => {
                Self::Float(value)
            }
            _ => Self::Raw(text.into()),
        }
    }

    /// Returns the integer, if the number is one within range, such as 3 or `3.0`.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            Self::Unsigned(_) => None,
            Self::Float(_) | Self::Raw(_) => {
                let value = self.as_f64();
                (value.fract() == 0.0 && value.abs() < 9.0e15).then_some(value as i64)
            }
        }
    }

    /// Returns the nearest floating point number.
    pub fn as_f64(&self) -> f64 {
        match self {
            Self::Int(value) => *value as f64,
            Self::Unsigned(value) => *value as f64,
            Self::Float(value) => *value,
            Self::Raw(text) => text.parse().unwrap_or(f64::NAN),
        }
    }

    /// Returns `true` if the number is spelled without fraction and exponent.
    pub fn is_integer(&self) -> bool {
        match self {
            Self::Int(_) | Self::Unsigned(_) => true,
            Self::Float(_) => false,
            Self::Raw(text) => !text.contains(['.', 'e', 'E']),
        }
    }
}

/// Returns `true` if the text of a float is certainly its shortest one, as [`float_text`] writes it. No two texts of up to
/// 15 digits are the same float.
fn is_shortest(text: &str, value: f64) -> bool {
    let Some((_, fraction)) = text.split_once('.') else { return false };
    let is_usual = value == 0.0 || (1e-3..1e15).contains(&value.abs());
    let ends = fraction == "0" || !fraction.ends_with('0');
    is_usual && ends && text.len() <= 16 && fraction.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns a float as JSON, always with a fraction or an exponent.
pub(super) fn float_text(value: f64) -> String {
    // `{:?}` writes the shortest text that parses to the same float, and it is valid JSON.
    format!("{value:?}")
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Unsigned(a), Self::Unsigned(b)) => a == b,
            (Self::Raw(a), Self::Raw(b)) if a == b => true,
            _ => self.as_f64() == other.as_f64(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_text_taken_for_the_shortest_is_written_back(text in r"-?(0|[1-9][0-9]{0,15})\.(0{0,5}[0-9]{1,16}|0)") {
            let value: f64 = text.parse().unwrap();
            prop_assert!(!is_shortest(&text, value) || float_text(value) == text, "{text}: {value:?}");
        }
    }

    #[test]
    fn usual_floats_are_taken_for_the_shortest() {
        for text in ["0.7", "1.0", "-0.0", "0.001", "12345.678"] {
            assert!(is_shortest(text, text.parse().unwrap()), "{text}");
        }
    }
}
