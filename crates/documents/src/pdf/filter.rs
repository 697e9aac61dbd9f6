//! Unpacks streams.

use super::super::error::DocumentError;
use super::object::from_hexadecimal;
use super::work::Work;
use std::io::Read;

/// The number of bytes that are unpacked between two checks of the limits.
const PART: u64 = 64 << 10;

/// The settings of a filter that undo the prediction of bytes from their neighbors.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prediction {
    pub(super) kind: usize,
    pub(super) colors: usize,
    pub(super) bits: usize,
    pub(super) columns: usize,
    /// The change of the code length of LZW one code early.
    pub(super) is_early: bool,
}

/// Applies a filter. `None` if the filter is unknown, or for images.
///
/// # Errors
/// Returns an error if a limit is exceeded.
pub(super) fn unpack(
    name: &str,
    bytes: &[u8],
    prediction: Prediction,
    work: &Work<'_>,
) -> Result<Option<Vec<u8>>, DocumentError> {
    work.bytes(bytes.len())?;
    let unpacked = match name {
        "FlateDecode" | "Fl" => predicted(inflate(bytes, work)?, prediction),
        "LZWDecode" | "LZW" => predicted(lzw(bytes, prediction.is_early, work)?, prediction),
        "ASCIIHexDecode" | "AHx" => from_hexadecimal(bytes),
        "ASCII85Decode" | "A85" => ascii85(bytes),
        "RunLengthDecode" | "RL" => run_length(bytes, work)?,
        _ => return Ok(None),
    };
    Ok(Some(unpacked))
}

/// Unpacks deflate with the zlib header, or without it if the header is damaged. What precedes damage is kept.
fn inflate(bytes: &[u8], work: &Work<'_>) -> Result<Vec<u8>, DocumentError> {
    let unpacked = read(flate2::bufread::ZlibDecoder::new(bytes), work)?;
    match bytes.get(2..) {
        Some(rest) if unpacked.is_empty() => read(flate2::bufread::DeflateDecoder::new(rest), work),
        _ => Ok(unpacked),
    }
}

fn read(mut from: impl Read, work: &Work<'_>) -> Result<Vec<u8>, DocumentError> {
    let mut unpacked = Vec::new();
    loop {
        let before = unpacked.len();
        let is_whole = from.by_ref().take(PART).read_to_end(&mut unpacked).is_ok();
        work.unpack(unpacked.len() - before)?;
        if !is_whole || unpacked.len() == before {
            return Ok(unpacked);
        }
    }
}

fn lzw(bytes: &[u8], is_early: bool, work: &Work<'_>) -> Result<Vec<u8>, DocumentError> {
    const CLEAR: usize = 256;
    const END: usize = 257;
    const FULL: usize = 4_096;
    // An entry is a place and a length in the output.
    let (mut output, mut entries) = (Vec::new(), Vec::<(usize, usize)>::new());
    let (mut buffer, mut held, mut last) = (0_usize, 0, None::<(usize, usize)>);
    let mut input = bytes.iter();
    loop {
        let count = END + 1 + entries.len() + usize::from(is_early);
        let width = if count < 512 {
            9
        } else if count < 1_024 {
            10
        } else if count < 2_048 {
            11
        } else {
            12
        };
        while held < width {
            let Some(byte) = input.next() else { return Ok(output) };
            buffer = (buffer << 8 | usize::from(*byte)) & 0xff_ffff;
            held += 8;
        }
        held -= width;
        let code = buffer >> held & ((1 << width) - 1);
        if code == END {
            return Ok(output);
        }
        if code == CLEAR {
            entries.clear();
            last = None;
            continue;
        }
        let at = output.len();
        match (code, last) {
            (0..=255, _) => output.push(code as u8),
            (_, Some((from, length))) => {
                let index = code - END - 1;
                let (from, length) = match entries.get(index) {
                    Some(entry) => *entry,
                    None if index == entries.len() => (from, length + 1),
                    None => return Ok(output),
                };
                for place in from..from + length {
                    // The last byte of a new entry is the first that it adds.
                    let Some(byte) = output.get(place).copied() else { return Ok(output) };
                    output.push(byte);
                }
            }
            _ => return Ok(output),
        }
        work.unpack(output.len() - at)?;
        if let Some((from, length)) = last
            && END + 1 + entries.len() < FULL
        {
            entries.push((from, length + 1));
        }
        last = Some((at, output.len() - at));
    }
}

fn ascii85(bytes: &[u8]) -> Vec<u8> {
    let (mut output, mut group, mut count) = (Vec::new(), 0_u32, 0);
    for byte in bytes {
        match byte {
            b'~' => break,
            b'z' if count == 0 => output.extend([0; 4]),
            b'!'..=b'u' => {
                group = group.wrapping_mul(85).wrapping_add(u32::from(byte - b'!'));
                count += 1;
                if count == 5 {
                    output.extend(group.to_be_bytes());
                    (group, count) = (0, 0);
                }
            }
            _ => {}
        }
    }
    if count > 1 {
        for _ in count..5 {
            group = group.wrapping_mul(85).wrapping_add(84);
        }
        output.extend(&group.to_be_bytes()[..count - 1]);
    }
    output
}

fn run_length(bytes: &[u8], work: &Work<'_>) -> Result<Vec<u8>, DocumentError> {
    let (mut output, mut rest) = (Vec::new(), bytes);
    while let Some((length, behind)) = rest.split_first() {
        let before = output.len();
        match usize::from(*length) {
            128 => break,
            count @ 0..128 => {
                let (own, behind) = behind.split_at(behind.len().min(count + 1));
                output.extend(own);
                rest = behind;
            }
            count => {
                let Some((byte, behind)) = behind.split_first() else { break };
                output.resize(output.len() + 257 - count, *byte);
                rest = behind;
            }
        }
        work.unpack(output.len() - before)?;
    }
    Ok(output)
}

/// Undoes the prediction.
fn predicted(mut bytes: Vec<u8>, prediction: Prediction) -> Vec<u8> {
    let Prediction { kind, colors, bits, columns, .. } = prediction;
    let (colors, bits) = (colors.clamp(1, 32), bits.clamp(1, 16));
    let step = (colors * bits).div_ceil(8);
    let width = (colors * bits).saturating_mul(columns.clamp(1, 1 << 20)).div_ceil(8);
    match kind {
        2 if bits == 8 => {
            for row in bytes.chunks_mut(width) {
                for at in step..row.len() {
                    row[at] = row[at].wrapping_add(row[at - step]);
                }
            }
            bytes
        }
        10.. => {
            let mut output: Vec<u8> = Vec::with_capacity(bytes.len());
            for line in bytes.chunks(width + 1) {
                let Some((method, row)) = line.split_first() else { break };
                let start = output.len();
                for (at, byte) in row.iter().enumerate() {
                    let left = if at >= step { output[start + at - step] } else { 0 };
                    let above = if start >= width { output[start + at - width] } else { 0 };
                    let corner =
                        if at >= step && start >= width { output[start + at - width - step] } else { 0 };
                    let guess = match method {
                        1 => left,
                        2 => above,
                        3 => ((u16::from(left) + u16::from(above)) / 2) as u8,
                        4 => paeth(left, above, corner),
                        _ => 0,
                    };
                    output.push(byte.wrapping_add(guess));
                }
            }
            output
        }
        _ => bytes,
    }
}

fn paeth(left: u8, above: u8, corner: u8) -> u8 {
    let [l, a, c] = [left, above, corner].map(i16::from);
    let guess = l + a - c;
    let [to_left, to_above, to_corner] = [l, a, c].map(|one| (guess - one).abs());
    if to_left <= to_above && to_left <= to_corner {
        left
    } else if to_above <= to_corner {
        above
    } else {
        corner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Prediction = Prediction { kind: 1, colors: 1, bits: 8, columns: 1, is_early: true };

    fn unpacked(name: &str, bytes: &[u8], prediction: Prediction) -> Vec<u8> {
        unpack(name, bytes, prediction, &Work::new(&|| false)).unwrap().unwrap()
    }

    #[test]
    fn streams_are_unpacked() {
        assert_eq!(unpacked("ASCIIHexDecode", b"48 65 6C6c6F>00", PLAIN), b"Hello");
        assert_eq!(unpacked("ASCII85Decode", b"87cURD]j7BEbo80~>", PLAIN), b"Hello world!");
        assert_eq!(unpacked("A85", b"87cURDZ~>", PLAIN), b"Hello");
        assert_eq!(unpacked("RunLengthDecode", b"\x02abc\xfed\x80x", PLAIN), b"abcddd");
        // The example of the specification.
        let lzw = [0x80, 0x0b, 0x60, 0x50, 0x22, 0x0c, 0x0c, 0x85, 0x01];
        assert_eq!(unpacked("LZWDecode", &lzw, PLAIN), b"-----A---B");
        assert!(unpack("DCTDecode", b"", PLAIN, &Work::new(&|| false)).unwrap().is_none());
    }

    #[test]
    fn predictions_are_undone() {
        let png = Prediction { kind: 12, columns: 3, ..PLAIN };
        let rows = [0, 1, 2, 3, 1, 1, 1, 1, 2, 1, 1, 1, 3, 1, 1, 1, 4, 1, 1, 1];
        assert_eq!(predicted(rows.to_vec(), png), [1, 2, 3, 1, 2, 3, 2, 3, 4, 2, 3, 4, 3, 4, 5]);
        let tiff = Prediction { kind: 2, columns: 3, ..PLAIN };
        assert_eq!(predicted(vec![1, 1, 1, 2, 0], tiff), [1, 2, 3, 2, 2]);
    }
}
