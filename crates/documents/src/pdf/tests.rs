//! Reads files that are written here: as programs write them, as damage leaves them, and as attackers would.

use super::super::error::DocumentError;
use super::page::MAX_PAGES;
use super::*;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use std::io::Write as _;

/// A file in the making: the objects by their numbers, from 1.
#[derive(Default)]
struct Draft(Vec<Vec<u8>>);

impl Draft {
    /// A file with one page that shows this content, in Helvetica as `/F`.
    fn page(content: &[u8]) -> Self {
        Self::pages(&["4 0 R"], "<</Font <</F <</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>")
            .with("<</Type/Page/Parent 2 0 R/Contents 5 0 R>>")
            .with_stream("", content)
    }

    /// A file whose catalog is 1, tree of pages 2 and resources 3.
    fn pages(kids: &[&str], resources: &str) -> Self {
        Self::default()
            .with("<</Type/Catalog/Pages 2 0 R>>")
            .with(format!("<</Type/Pages/Kids[{}]/Count {}/Resources 3 0 R>>", kids.join(" "), kids.len()))
            .with(resources)
    }

    fn with(mut self, object: impl Into<Vec<u8>>) -> Self {
        self.0.push(object.into());
        self
    }

    fn with_stream(self, entries: &str, content: &[u8]) -> Self {
        let head = format!("<</Length {}{entries}>>\nstream\r\n", content.len());
        self.with([head.as_bytes(), content, b"\nendstream"].concat())
    }

    fn with_packed(self, content: &[u8]) -> Self {
        self.with_stream("/Filter/FlateDecode", &deflate(content))
    }

    /// Writes the objects, the table and the trailer with more entries.
    fn write_with(&self, trailer: &str) -> Vec<u8> {
        let (mut bytes, mut table) = (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n".to_vec(), String::new());
        for (number, object) in (1..).zip(&self.0) {
            table.push_str(&format!("{:010} 00000 n \n", bytes.len()));
            bytes.extend([format!("{number} 0 obj\n").as_bytes(), object, b"\nendobj\n"].concat());
        }
        let (count, at) = (self.0.len() + 1, bytes.len());
        let table = format!(
            "xref\n0 {count}\n0000000000 65535 f \n{table}trailer\n<</Size {count}/Root 1 0 R{trailer}>>\n\
             startxref\n{at}\n%%EOF\n"
        );
        bytes.extend(table.into_bytes());
        bytes
    }

    fn write(&self) -> Vec<u8> {
        self.write_with("")
    }
}

fn deflate(content: &[u8]) -> Vec<u8> {
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::best());
    packed.write_all(content).unwrap();
    packed.finish().unwrap()
}

fn read(bytes: &[u8]) -> Result<String, DocumentError> {
    assert!(is_pdf(bytes));
    text(bytes, &|| false)
}

fn shows(content: &str, expected: &str) {
    assert_eq!(read(&Draft::page(content.as_bytes()).write()).unwrap(), expected, "{content}");
}

#[test]
fn texts_of_a_page_are_lines_words_and_columns() {
    shows("BT /F 12 Tf 72 700 Td (Hello, world) Tj ET", "Hello, world");
    shows("BT /F 12 Tf 14 TL 72 700 Td (one) Tj T* (two) Tj (three) ' ET", "one\ntwo\nthree");
    shows("BT /F 12 Tf 0 -14 TD (a) Tj 0 -14 Td (b) Tj 0 -40 Td (c) Tj ET", "a\nb\n\nc");
    shows("BT /F 10 Tf [(W) 80 (orld) -300 (wide) 20 (r)] TJ ET", "World wider");
    shows("BT /F 10 Tf (left) Tj 100 0 Td (right) Tj ET", "left\tright");
    // Each word stands at its own place; these are the widths of Helvetica.
    shows("BT /F 10 Tf 1 0 0 1 72 700 Tm (will) Tj 1 0 0 1 90 700 Tm (fit) Tj ET", "will fit");
    shows("BT /F 10 Tf 1 0 0 1 72 700 Tm (wil) Tj 1 0 0 1 83.6 700 Tm (ling) Tj ET", "willing");
    // A text that is written twice to be bold.
    shows("BT /F 10 Tf (bold) Tj 1 0 0 1 0.3 0 Tm (bold) Tj ET", "bold");
    shows("q 2 0 0 2 0 0 cm BT /F 10 Tf (a) Tj ET Q BT /F 10 Tf 0 -50 Td (b) Tj ET", "a\n\nb");
    shows("BT /F 10 Tf 3 2 (spaced out) \" ET", "spaced out");
    shows(
        "BT /F 10 Tf (x) Tj 4 Ts (2) Tj ET BI /W 1 /H 1 ID \x01EI(no)Tj\nEI BT /F 10 Tf 90 0 Td (y) Tj ET",
        "x2\ty",
    );
}

#[test]
fn packed_streams_and_parts_of_contents_are_read() {
    let two = Draft::pages(&["4 0 R", "6 0 R"], "<</Font <</F 9 0 R>>>>")
        .with("<</Type/Page/Contents [5 0 R 8 0 R]>>")
        .with_packed(b"BT /F 12 Tf (first")
        .with("<</Type/Page/Contents 7 0 R>>")
        .with_packed(b"BT /F 12 Tf (\\351t\\351 \\050second\\051) Tj ET")
        .with_stream("/Filter[/AHx/Fl]", &hexadecimal(&deflate(b"page) Tj ET")))
        .with("<</Type/Font/Subtype/Type1/Encoding/WinAnsiEncoding>>");
    // A text cannot go on in the next part: the line end between them belongs to it, and is not shown.
    assert_eq!(read(&two.write()).unwrap(), "firstpage\n\nété (second)");
}

fn hexadecimal(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into_bytes()
}

#[test]
fn fonts_say_which_letters_they_show() {
    let cmap =
        b"1 begincodespacerange <0000> <FFFF> endcodespacerange 1 beginbfchar <0003> <00660069> endbfchar \
        1 beginbfrange <0010> <0012> <0430> endbfrange";
    let wide = |named: &str| {
        Draft::pages(&["4 0 R"], "<</Font <</F 6 0 R>>>>")
            .with("<</Type/Page/Contents 5 0 R>>")
            .with_stream("", b"BT /F 10 Tf <000300100011> Tj 11 0 Td <0012> Tj ET")
            .with(format!("<</Subtype/Type0/Encoding/Identity-H/DescendantFonts[7 0 R]{named}>>"))
            .with("<</Subtype/CIDFontType2/DW 500/W[3[250] 16 17 300]>>")
            .with_packed(cmap)
    };
    assert_eq!(read(&wide("/ToUnicode 8 0 R").write()).unwrap(), "fiаб в");
    assert_eq!(read(&wide("").write()), Err(DocumentError::NoLetters));
    let names = "<</Font <</F <</Subtype/Type1/Encoding <</Differences[1/fi/eacute 65/Omega/g9]>>>>>>>>";
    let named = Draft::pages(&["4 0 R"], names)
        .with("<</Type/Page/Contents 5 0 R>>")
        .with_stream("", b"BT /F 10 Tf <010241> Tj (BC'`) Tj ET");
    assert_eq!(read(&named.write()).unwrap(), "fiéΩC’‘");
    // An embedded font with an encoding of its own.
    let font = "<</Font <</F <</Subtype/Type1/FontDescriptor 6 0 R>>>>>>";
    let embedded = Draft::pages(&["4 0 R"], font)
        .with("<</Type/Page/Contents 5 0 R>>")
        .with_stream("", b"BT /F 10 Tf (\\014ne) Tj ET")
        .with("<</FontFile 7 0 R>>")
        .with_packed(b"%!PS\n/Encoding 256 array\n0 1 255 {1 index exch /.notdef put} for\ndup 12 /fi put\nreadonly def");
    assert_eq!(read(&embedded.write()).unwrap(), "fine");
}

#[test]
fn forms_are_read_once_at_each_use() {
    let forms = Draft::pages(&["4 0 R"], "<</Font <</F <</Subtype/Type1>>>>/XObject<</A 6 0 R/I 7 0 R>>>>")
        .with("<</Type/Page/Contents 5 0 R>>")
        .with_stream("", b"/A Do /I Do q 1 0 0 1 0 -15 cm /A Do Q")
        // It uses itself.
        .with_stream("/Subtype/Form", b"BT /F 10 Tf (form) Tj ET /A Do")
        .with_stream("/Subtype/Image/Filter/DCTDecode", b"BT (no) Tj");
    assert_eq!(read(&forms.write()).unwrap(), "form\nform");
}

#[test]
fn objects_and_tables_are_read_from_streams() {
    let objects =
        ["<</Type/Catalog/Pages 2 0 R>>", "<</Kids[3 0 R]>>", "<</Contents 5 0 R/Resources 4 0 R>>"];
    let font = "<</Font<</F<</Subtype/TrueType>>>>>>";
    let (mut head, mut body) = (String::new(), String::new());
    for (number, object) in (1..).zip(objects.iter().chain([&font])) {
        head.push_str(&format!("{number} {} ", body.len()));
        body.push_str(&format!("{object} "));
    }
    let content = Draft::default().with_packed(b"BT /F 10 Tf (packed) Tj ET").0.remove(0);
    let entries = format!("/Type/ObjStm/N 4/First {}/Filter/FlateDecode", head.len());
    let packed =
        Draft::default().with_stream(&entries, &deflate(format!("{head}{body}").as_bytes())).0.remove(0);
    let mut bytes = b"%PDF-1.5\n".to_vec();
    let places = [(5, content), (6, packed)].map(|(number, object)| {
        let at = bytes.len();
        bytes.extend([format!("{number} 0 obj ").as_bytes(), &object, b" endobj\n"].concat());
        at
    });
    // Rows of the table, with the prediction that most programs use.
    let mut rows: Vec<[u8; 4]> = vec![[0, 0, 0, 0]];
    rows.extend((0..4).map(|index| [2, 0, 6, index]));
    rows.extend(places.map(|at| [1, (at >> 8) as u8, at as u8, 0]));
    let mut above = [0; 4];
    let mut predicted = Vec::new();
    for row in rows {
        predicted.push(2);
        predicted.extend(row.iter().zip(above).map(|(own, above)| own.wrapping_sub(above)));
        above = row;
    }
    let at = bytes.len();
    let entries =
        "/Type/XRef/Size 7/W[1 2 1]/Root 1 0 R/Filter/FlateDecode/DecodeParms<</Predictor 12/Columns 4>>";
    let table = Draft::default().with_stream(entries, &deflate(&predicted)).0.remove(0);
    let end = format!("\nendobj\nstartxref\n{at}\n%%EOF");
    bytes.extend([b"7 0 obj\n", &table[..], end.as_bytes()].concat());
    assert_eq!(read(&bytes).unwrap(), "packed");
    // The same objects are found without the table.
    let lost = String::from_utf8_lossy(&bytes).rfind("startxref").unwrap();
    assert!(lost > at);
    bytes.truncate(at);
    assert_eq!(read(&bytes).unwrap(), "packed");
}

#[test]
fn damaged_files_are_read_as_far_as_they_go() {
    let whole = Draft::page(b"BT /F 12 Tf (still here) Tj ET").write();
    let broken = |from: &str, to: &str| {
        let text = String::from_utf8_lossy(&whole).replace(from, to);
        assert_ne!(text, String::from_utf8_lossy(&whole), "{from}");
        text.into_bytes()
    };
    // The replaced bytes of the comment move everything, and so the table is wrong as well.
    for (from, to) in [
        ("startxref", "startxxxx"),
        ("trailer", "trailor"),
        ("/Length 30", "/Length 3000"),
        ("/Length 30", "/Length 5 0 R"),
        ("endstream", "endstroom"),
        ("%%EOF", ""),
        ("/Pages 2 0 R", "/Pages 9 0 R"),
    ] {
        assert_eq!(read(&broken(from, to)).unwrap(), "still here", "{from}");
    }
    assert_eq!(read(&[b"\xef\xbb\xbf mail\n", &whole[..]].concat()).unwrap(), "still here");
    for end in 0..whole.len() {
        let _ = text(&whole[..end], &|| false);
        let mut changed = whole.clone();
        changed[end] ^= 0x15;
        let _ = text(&changed, &|| false);
    }
}

#[test]
fn a_text_that_quotes_the_signature_stays_a_text() {
    assert!(!is_pdf("Files begin with %PDF-1.7, naïvely".as_bytes()));
    assert!(!is_pdf(b"") && !is_pdf(b"%PDF"));
}

#[test]
fn files_without_text_say_why() {
    let scan = Draft::page(b"q 1 0 0 1 0 0 cm /I Do Q");
    assert_eq!(read(&scan.write()), Err(DocumentError::NoText));
    let page = Draft::page(b"BT /F 1 Tf (a) Tj ET");
    assert_eq!(read(&page.write_with("/Encrypt 5 0 R")), Err(DocumentError::Encrypted));
    let lost = String::from_utf8_lossy(&page.write_with("/Encrypt 5 0 R")).replace("startxref", "");
    assert_eq!(read(lost.as_bytes()), Err(DocumentError::Encrypted));
    assert_eq!(read(b"%PDF-1.7\nnothing"), Err(DocumentError::Damaged("it has no pages")));
}

#[test]
fn trees_and_references_in_circles_end() {
    let circle = Draft::pages(&["2 0 R", "4 0 R", "4 0 R", "5 0 R"], "<</Font<</F<</Subtype/Type1>>>>>>")
        .with("<</Type/Page/Contents 6 0 R>>")
        .with("<</Type/Pages/Kids[2 0 R 5 0 R 4 0 R]>>")
        .with_stream("", b"BT /F 1 Tf (once) Tj ET");
    assert_eq!(read(&circle.write()).unwrap(), "once");
    let own_length =
        Draft::pages(&["4 0 R"], "4 0 R").with("<</Length 4 0 R/Contents 4 0 R>> stream\n(a)\nendstream");
    assert!(read(&own_length.write()).is_err());
    let own = Draft::default().with("1 0 R").with("<</Type/Catalog/Pages 1 0 R>>");
    assert_eq!(read(&own.write()), Err(DocumentError::Damaged("it has no pages")));
    // A table that continues itself.
    let page = Draft::page(b"BT /F 1 Tf (a) Tj ET");
    let at = page.write().windows(5).position(|five| five == b"xref\n").unwrap();
    let tables = page.write_with(&format!("/Prev {at}"));
    assert_eq!(read(&tables).unwrap(), "a");
}

#[test]
fn bombs_are_refused() {
    let zeros = vec![b' '; 80 << 20];
    let inner = deflate(&zeros);
    let unpacked = DocumentError::TooLarge { what: "unpacked streams", limit_mb: 64 };
    let once = Draft::page(b"").0;
    for entries in ["/Filter/FlateDecode", "/Filter[/FlateDecode/FlateDecode]"] {
        let packed = if entries.contains('[') { deflate(&inner) } else { inner.clone() };
        let mut bomb = Draft(once[..4].to_vec()).with_stream(entries, &packed);
        assert_eq!(read(&bomb.write()), Err(unpacked), "{entries}");
        // As a stream of objects.
        let entries = format!("{entries}/Type/ObjStm/N 1/First 5");
        bomb = Draft(once[..4].to_vec()).with_stream(&entries, &packed);
        let bytes = bomb.write();
        let lost = bytes.windows(9).rposition(|nine| nine == b"startxref").unwrap();
        assert_eq!(read(&bytes[..lost]), Err(unpacked), "{entries}");
    }
    // One stream that each of many pages shows.
    let content = [b"BT /F 1 Tf (a) Tj ET".to_vec(), vec![b' '; 1 << 20]].concat();
    let kids: Vec<String> = (0..100).map(|page| format!("{} 0 R", page + 5)).collect();
    let kids: Vec<&str> = kids.iter().map(String::as_str).collect();
    let mut shared = Draft::pages(&kids, "<</Font<</F<</Subtype/Type1>>>>>>").with_packed(&content);
    for _ in 0..100 {
        shared = shared.with("<</Type/Page/Contents 4 0 R>>");
    }
    assert_eq!(read(&shared.write()), Err(unpacked));
    // A code that means many letters, shown many times.
    let letters = format!("1 beginbfchar <41> <{}> endbfchar", "0041".repeat(10_000));
    let font = "<</Font<</F<</Subtype/Type1/ToUnicode 6 0 R>>>>>>";
    let long = Draft::pages(&["4 0 R"], font)
        .with("<</Type/Page/Contents 5 0 R>>")
        .with_packed(format!("BT /F 1 Tf ({}) Tj", "A".repeat(10 << 20)).as_bytes())
        .with_packed(letters.as_bytes());
    assert_eq!(read(&long.write()), Err(DocumentError::TooLarge { what: "text", limit_mb: 4 }));
    // Fonts that share a long list of widths, each with its own copy.
    let widths = format!("[0[{}]]", "1 ".repeat(190_000));
    let fonts: String = (0..1_000).map(|font| format!("/F{font} {} 0 R", font + 7)).collect();
    let uses: String = (0..1_000).map(|font| format!("/F{font} 1 Tf (a) Tj ")).collect();
    let mut many = Draft::pages(&["4 0 R"], &format!("<</Font<<{fonts}>>>>"))
        .with("<</Type/Page/Contents 5 0 R>>")
        .with_stream("", uses.as_bytes())
        .with(widths);
    for _ in 0..1_000 {
        many = many.with("<</Subtype/Type0/Encoding/Identity-H/DescendantFonts[<</W 6 0 R>>]>>");
    }
    let codes = DocumentError::TooMany { what: "codes of fonts", limit: 5_000_000 };
    assert_eq!(read(&many.write()), Err(codes));
    // A node that many others list, and resources that many pages share.
    let kids = (5..400).map(|number| format!("{number} 0 R ")).collect::<String>().repeat(100);
    let resources = format!("<<{}/Font<</F<</Subtype/Type1>>>>>>", "/A 1".repeat(30_000));
    let mut shared = Draft::default()
        .with("<</Type/Catalog/Pages 5 0 R>>")
        .with(format!("[{kids}]"))
        .with(resources)
        .with_packed(b"BT /F 1 Tf (a) Tj");
    for number in 5..400 {
        let page = "<</Type/Page/Contents 4 0 R/Resources 3 0 R>>";
        shared = shared.with(if number < 200 { "<</Type/Pages/Kids 2 0 R>>" } else { page });
    }
    assert_eq!(read(&shared.write()).map(|text| text.len()), Ok(598));
    // Forms that use others twice.
    let mut forms = Draft::pages(&["4 0 R"], "<</Font<</F<</Subtype/Type1>>>>/XObject 5 0 R>>")
        .with("<</Type/Page/Contents 6 0 R>>")
        .with(format!("<<{}>>", (7..30).map(|number| format!("/X{number} {number} 0 R")).collect::<String>()))
        .with_stream("", b"/X7 Do");
    for number in 7..30 {
        let next = number + 1;
        let twenty = format!("/X{next} Do ").repeat(20);
        forms = forms.with_stream("/Subtype/Form", twenty.as_bytes());
    }
    assert!(matches!(
        read(&forms.write()),
        Err(DocumentError::TooLarge { .. } | DocumentError::TooMany { .. })
    ));
}

#[test]
fn pages_text_and_nesting_are_limited() {
    let of = |count: usize| {
        let kids: Vec<String> = (0..count).map(|page| format!("{} 0 R", page + 5)).collect();
        let kids: Vec<&str> = kids.iter().map(String::as_str).collect();
        let mut pages =
            Draft::pages(&kids, "<</Font<</F<</Subtype/Type1>>>>>>").with_packed(b"BT /F 1 Tf (p) Tj ET");
        for _ in 0..count {
            pages = pages.with("<</Type/Page/Contents 4 0 R>>");
        }
        read(&pages.write())
    };
    assert_eq!(of(MAX_PAGES).unwrap().len(), MAX_PAGES * 3 - 2);
    assert_eq!(of(MAX_PAGES + 1), Err(DocumentError::TooMany { what: "pages", limit: MAX_PAGES }));
    let line = format!("({}) Tj T* ", "x".repeat(1_000)).repeat(5_000);
    let long = Draft::page(format!("BT /F 1 Tf 9 TL {line}").as_bytes());
    assert_eq!(read(&long.write()), Err(DocumentError::TooLarge { what: "text", limit_mb: 4 }));
    let deep = ["[".repeat(100_000), "<</A ".repeat(100_000), "q ".repeat(100_000)].concat();
    let _ = read(&Draft::page(deep.as_bytes()).write());
    assert!(read(&Draft::pages(&["4 0 R"], "null").with(deep.as_bytes()).write()).is_err());
}

#[test]
fn reading_ends_when_it_is_stopped() {
    let many = "(a) Tj ".repeat(100_000);
    let bytes = Draft::page(format!("BT /F 1 Tf {many}").as_bytes()).write();
    assert_eq!(text(&bytes, &|| true), Err(DocumentError::Stopped));
    // Streams without an end, each of which is searched for.
    let slow: String = (1..20_000).map(|number| format!("{number} 0 obj <</Length 9>> stream\n")).collect();
    assert!(read(format!("%PDF-1.7\n{slow}").as_bytes()).is_err());
}
