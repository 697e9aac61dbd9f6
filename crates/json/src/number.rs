//! Numbers that keep their spelling.

/// A JSON number. Only a spelling that writing would change is kept as text.
#[derive(Clone, Debug)]
pub enum Number {
    /// A whole number of 64 bits.
    Int(i64),
    /// A whole number above the signed range.
    Unsigned(u64),
    /// A finite number with a fraction or an exponent.
    Float(f64),
    /// As it was spelt: `1e2`, `1.10`, more digits than 64 bits hold.
    Spelt(Box<str>),
}

impl Number {
    /// The shortest form of an unsigned number.
    pub fn from_u64(value: u64) -> Self {
        i64::try_from(value).map_or(Self::Unsigned(value), Self::Int)
    }

    /// From text that the grammar of JSON has already accepted.
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
            Ok(value) if value.is_finite() && float_text(value) == text => Self::Float(value),
            _ => Self::Spelt(text.into()),
        }
    }

    /// The whole number, when this is one within range; `3.0` is one too.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            Self::Unsigned(_) => None,
            Self::Float(_) | Self::Spelt(_) => {
                let value = self.as_f64();
                (value.fract() == 0.0 && value.abs() < 9.0e15).then_some(value as i64)
            }
        }
    }

    /// The nearest floating point number.
    pub fn as_f64(&self) -> f64 {
        match self {
            Self::Int(value) => *value as f64,
            Self::Unsigned(value) => *value as f64,
            Self::Float(value) => *value,
            Self::Spelt(text) => text.parse().unwrap_or(f64::NAN),
        }
    }

    /// Returns `true` if it is spelt without fraction and exponent.
    pub fn is_integer(&self) -> bool {
        match self {
            Self::Int(_) | Self::Unsigned(_) => true,
            Self::Float(_) => false,
            Self::Spelt(text) => !text.contains(['.', 'e', 'E']),
        }
    }
}

/// A float as JSON writes it: always with a fraction or an exponent.
pub(super) fn float_text(value: f64) -> String {
    // `{:?}` is the shortest text that reads back the same, spelt as JSON allows.
    format!("{value:?}")
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Unsigned(a), Self::Unsigned(b)) => a == b,
            (Self::Spelt(a), Self::Spelt(b)) if a == b => true,
            _ => self.as_f64() == other.as_f64(),
        }
    }
}
