//! Bytes: the body of a response, a file, an image. Rhai's blobs have at most as many bytes as an array has
//! elements, and are copied whenever they are passed; this type shares them.

use super::convert::error;
use super::handle::{Bytes, method, pure};
use crate::budget;
use crate::call::redaction::excerpt;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rhai::{Blob, Dynamic, EvalAltResult, INT, Module};
use valvehouse_core::text::hex;

type Answer<T> = Result<T, Box<EvalAltResult>>;

/// The maximum number of bytes of one value.
const MAX_BYTES: usize = 8 << 20;
/// The number of bytes that are charged as one operation.
const BYTES_OF_AN_OPERATION: usize = 128;

impl Bytes {
    /// Creates a value from bytes of a native.
    ///
    /// # Errors
    ///
    /// Returns an error if there are more than [`MAX_BYTES`].
    pub fn new(bytes: impl Into<bytes::Bytes>) -> Answer<Self> {
        let bytes = bytes.into();
        if bytes.len() > MAX_BYTES {
            let most = MAX_BYTES >> 20;
            return Err(error(format!(
                "a value of {} bytes exceeds the limit; it may have at most {most} MiB",
                bytes.len()
            )));
        }
        Ok(Self(bytes))
    }

    /// Returns the bytes of a value or of Rhai's own blob; `None` for anything else.
    pub fn of(value: &Dynamic) -> Option<Self> {
        if let Some(bytes) = value.read_lock::<Self>() {
            return Some(bytes.clone());
        }
        let blob = value.read_lock::<Blob>()?;
        Some(Self(bytes::Bytes::copy_from_slice(&blob)))
    }

    /// Charges one pass over the bytes to the budget of the running call.
    ///
    /// # Errors
    /// Returns an error if the call exceeds its limit of operations.
    pub fn charge(length: usize) -> Answer<()> {
        budget::charge((length / BYTES_OF_AN_OPERATION) as u64).map_err(budget::ended)
    }

    /// Decodes the bytes as text.
    pub(crate) fn text(&self) -> Answer<String> {
        Self::charge(self.0.len())?;
        match std::str::from_utf8(&self.0) {
            Ok(text) => Ok(text.to_owned()),
            Err(wrong) => Err(error(format!(
                "cannot read {} bytes as text: byte {} is not UTF-8; keep them as bytes, or write `text_lossy()` \
                 for a text with `\u{fffd}` in its place",
                self.0.len(),
                wrong.valid_up_to()
            ))),
        }
    }

    /// Returns the media type of an image by its first bytes; `application/octet-stream` for anything else.
    fn media_type(&self) -> &'static str {
        match &*self.0 {
            [0x89, b'P', b'N', b'G', ..] => "image/png",
            [0xff, 0xd8, 0xff, ..] => "image/jpeg",
            [b'G', b'I', b'F', b'8', ..] => "image/gif",
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "image/webp",
            [b'%', b'P', b'D', b'F', ..] => "application/pdf",
            _ => "application/octet-stream",
        }
    }

    /// Returns the bytes as a `data:` URL.
    pub(crate) fn data_url(&self, media_type: Option<&str>) -> Answer<String> {
        Self::charge(self.0.len())?;
        let media_type = media_type.unwrap_or_else(|| self.media_type());
        let fits = |letter: char| letter.is_ascii_alphanumeric() || "/+-.;= ".contains(letter);
        if !media_type.contains('/') || !media_type.chars().all(fits) {
            let shown = excerpt(media_type);
            return Err(error(format!(
                "data_url: invalid media type `{shown}`: expected a type such as image/png"
            )));
        }
        Ok(format!("data:{media_type};base64,{}", STANDARD.encode(&self.0)))
    }

    fn at(&self, index: INT) -> Answer<INT> {
        let length = self.0.len();
        let from_end =
            || usize::try_from(index.unsigned_abs()).ok().and_then(|back| length.checked_sub(back));
        let place = if index < 0 { from_end() } else { usize::try_from(index).ok() };
        let byte = place.and_then(|place| self.0.get(place));
        byte.map(|byte| (*byte).into())
            .ok_or_else(|| error(format!("index {index} is out of range: the value has {length} bytes")))
    }

    fn part(&self, start: INT, length: INT) -> Self {
        let all = self.0.len();
        let back = usize::try_from(start.unsigned_abs()).unwrap_or(all);
        let start = if start < 0 { all.saturating_sub(back) } else { back.min(all) };
        let length = usize::try_from(length).unwrap_or(0).min(all - start);
        Self(self.0.slice(start..start + length))
    }

    fn joined(&self, other: &[u8]) -> Answer<Self> {
        let length = self.0.len() + other.len();
        if length > MAX_BYTES {
            return Err(error(format!(
                "a value of {length} bytes exceeds the limit; it may have at most 8 MiB"
            )));
        }
        Self::charge(length)?;
        budget::reserve(length).map_err(budget::ended)?;
        let mut joined = Vec::with_capacity(length);
        joined.extend_from_slice(&self.0);
        joined.extend_from_slice(other);
        Ok(Self(joined.into()))
    }
}

/// Registers the methods of bytes. They are separate from those of live values, which use array functions with the
/// same names.
pub(crate) fn register(module: &mut Module) {
    module.set_custom_type::<Bytes>("blob");
    pure("len").set_into_module(module, |bytes: &mut Bytes| bytes.0.len() as INT);
    pure("get$len").set_into_module(module, |bytes: &mut Bytes| bytes.0.len() as INT);
    pure("is_empty").set_into_module(module, |bytes: &mut Bytes| bytes.0.is_empty());
    pure("index$get$").set_into_module(module, |bytes: &mut Bytes, index: INT| bytes.at(index));
    pure("extract")
        .set_into_module(module, |bytes: &mut Bytes, start: INT, length: INT| bytes.part(start, length));
    pure("extract").set_into_module(module, |bytes: &mut Bytes, start: INT| bytes.part(start, INT::MAX));
    pure("+").set_into_module(module, |bytes: &mut Bytes, other: Bytes| bytes.joined(&other.0));
    pure("+").set_into_module(module, |bytes: &mut Bytes, other: Blob| bytes.joined(&other));
    pure("==").set_into_module(module, |a: &mut Bytes, b: Bytes| a.0 == b.0);
    pure("!=").set_into_module(module, |a: &mut Bytes, b: Bytes| a.0 != b.0);
    for name in ["to_string", "to_debug", "print", "debug"] {
        pure(name).set_into_module(module, |bytes: &mut Bytes| format!("blob of {} bytes", bytes.0.len()));
    }
    method(
        "to_blob",
        &["bytes: &mut blob", "blob"],
        "Returns the bytes as a blob that the script can change; at most 100 000 bytes.",
    )
    .set_into_module(module, |bytes: &mut Bytes| -> Answer<Blob> {
        Bytes::charge(bytes.0.len())?;
        Ok(bytes.0.to_vec())
    });
    let as_text = "Decodes the bytes as UTF-8 text. Fails with the offset of the first invalid byte.";
    let lossy = "Decodes the bytes as text, with `\u{fffd}` for invalid UTF-8.";
    let as_hex = "Returns the bytes as lower-case hexadecimal digits.";
    let address = "Returns the bytes as a data URL, `data:image/png;base64,…`, for the `url` of an image. \
                   The type of PNG, JPEG, GIF, WebP and PDF is detected.";
    let typed = "Returns the bytes as a data URL with this media type.";
    // Both kinds of bytes have the same methods.
    fn read(bytes: &mut Dynamic) -> Answer<Bytes> {
        Bytes::of(bytes).ok_or_else(|| error("the value is not bytes"))
    }
    macro_rules! words_of {
        ($kind:ty, $owned:expr) => {
            method("text", &["bytes: &mut blob", "text"], as_text)
                .set_into_module(module, |bytes: &mut $kind| $owned(bytes)?.text());
            method("text_lossy", &["bytes: &mut blob", "text"], lossy).set_into_module(
                module,
                |bytes: &mut $kind| -> Answer<String> {
                    let bytes: Bytes = $owned(bytes)?;
                    Bytes::charge(bytes.0.len())?;
                    Ok(String::from_utf8_lossy(&bytes.0).into_owned())
                },
            );
            method("hex", &["bytes: &mut blob", "text"], as_hex).set_into_module(
                module,
                |bytes: &mut $kind| -> Answer<String> {
                    let bytes: Bytes = $owned(bytes)?;
                    Bytes::charge(bytes.0.len())?;
                    if bytes.0.len() * 2 > MAX_BYTES {
                        return Err(error("hex: the result would be larger than 8 MiB"));
                    }
                    Ok(hex(&bytes.0))
                },
            );
            method("data_url", &["bytes: &mut blob", "text"], address)
                .set_into_module(module, |bytes: &mut $kind| $owned(bytes)?.data_url(None));
            method("data_url", &["bytes: &mut blob", "media_type: &str", "text"], typed)
                .set_into_module(module, |bytes: &mut $kind, media_type: &str| {
                    $owned(bytes)?.data_url(Some(media_type))
                });
        };
    }
    words_of!(Bytes, |bytes: &mut Bytes| -> Answer<Bytes> { Ok(bytes.clone()) });
    words_of!(Blob, |bytes: &mut Blob| -> Answer<Bytes> { read(&mut Dynamic::from_blob(bytes.clone())) });
}
