//! A strict reader (RFC 8259) of one JSON object whose values are strings, numbers, true, false, null and arrays of
//! strings, or of such an array alone; and what is needed to write objects.

use std::str;

#[derive(Debug, PartialEq, Eq)]
pub enum Value<'a> {
    String(String),
    /// As it is written.
    Number(&'a str),
    Bool(bool),
    Null,
    /// An array of strings.
    Strings(Vec<String>),
    /// An object or another array, which this reader does not enter: the end follows, or an error.
    Nested,
}

/// What is wrong where the reader is.
#[derive(Debug, PartialEq, Eq)]
pub struct Syntax;

type Result<T> = std::result::Result<T, Syntax>;

/// Reads an object member by member.
pub struct Object<'a> {
    text: &'a [u8],
    /// Where in the text the reader is.
    position: usize,
    is_inside: bool,
}

impl<'a> Object<'a> {
    pub fn new(text: &'a [u8]) -> Object<'a> {
        Object { text, position: 0, is_inside: false }
    }

    /// The next key and value, None where the object and the text end.
    pub fn member(&mut self) -> Result<Option<(String, Value<'a>)>> {
        self.expect(if self.is_inside { b",}" } else { b"{" })?;
        if self.last() == b'}' || !self.is_inside && self.accept(b"}") {
            return self.end().map(|()| None);
        }
        self.is_inside = true;
        self.skip_space();
        let key = self.string()?;
        self.expect(b":")?;
        Ok(Some((key, self.value()?)))
    }

    fn end(&mut self) -> Result<()> {
        self.skip_space();
        if self.position == self.text.len() {
            Ok(())
        } else {
            Err(Syntax)
        }
    }

    fn value(&mut self) -> Result<Value<'a>> {
        self.skip_space();
        match self.peek() {
            b'"' => return self.string().map(Value::String),
            b'-' | b'0'..=b'9' => return self.number().map(Value::Number),
            b'[' => return self.array(),
            b'{' => return Ok(Value::Nested),
            _ => {}
        }
        for (word, value) in [("true", Value::Bool(true)), ("false", Value::Bool(false)), ("null", Value::Null)] {
            if self.rest().starts_with(word.as_bytes()) {
                self.position += word.len();
                return Ok(value);
            }
        }
        Err(Syntax)
    }

    /// The strings of an array. The reader does not enter one that has anything else.
    fn array(&mut self) -> Result<Value<'a>> {
        let start = self.position;
        let mut strings = Vec::new();
        self.expect(b"[")?;
        let mut is_open = !self.accept(b"]");
        while is_open {
            self.skip_space();
            if self.peek() != b'"' {
                self.position = start;
                return Ok(Value::Nested);
            }
            strings.push(self.string()?);
            self.expect(b",]")?;
            is_open = self.last() == b',';
        }
        Ok(Value::Strings(strings))
    }

    fn number(&mut self) -> Result<&'a str> {
        let start = self.position;
        self.take(b"-");
        if !self.take(b"0") {
            self.digits()?;
        }
        if self.take(b".") {
            self.digits()?;
        }
        if self.take(b"eE") {
            self.take(b"+-");
            self.digits()?;
        }
        self.text.get(start..self.position).and_then(|number| str::from_utf8(number).ok()).ok_or(Syntax)
    }

    fn digits(&mut self) -> Result<()> {
        if !self.take(b"0123456789") {
            return Err(Syntax);
        }
        while self.take(b"0123456789") {}
        Ok(())
    }

    fn string(&mut self) -> Result<String> {
        if !self.take(b"\"") {
            return Err(Syntax);
        }
        let mut bytes = Vec::new();
        loop {
            let byte = self.peek();
            if byte < b' ' {
                return Err(Syntax); // the end of the text as well
            }
            self.position += 1;
            match byte {
                b'"' => return String::from_utf8(bytes).map_err(|_| Syntax),
                b'\\' => bytes.extend_from_slice(self.escape()?.encode_utf8(&mut [0; 4]).as_bytes()),
                _ => bytes.push(byte),
            }
        }
    }

    /// What follows a backslash.
    fn escape(&mut self) -> Result<char> {
        let byte = self.peek();
        self.position += 1;
        Ok(match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\x08',
            b'f' => '\x0c',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.code_point(),
            _ => {
                self.position -= 1;
                return Err(Syntax);
            }
        })
    }

    /// The character of the digits after `\u`, and of a second `\u` where the first is half a pair.
    fn code_point(&mut self) -> Result<char> {
        let unit = self.unit()?;
        if unit & 0xfc00 != 0xd800 {
            return char::from_u32(unit).ok_or(Syntax); // a lone low half is none
        }
        if !(self.take(b"\\") && self.take(b"u")) {
            return Err(Syntax);
        }
        match self.unit()? {
            low if low & 0xfc00 == 0xdc00 => {
                char::from_u32(0x10000 + ((unit & 0x3ff) << 10 | low & 0x3ff)).ok_or(Syntax)
            }
            _ => Err(Syntax),
        }
    }

    fn unit(&mut self) -> Result<u32> {
        let mut unit = 0;
        for _ in 0..4 {
            unit = unit << 4 | char::from(self.peek()).to_digit(16).ok_or(Syntax)?;
            self.position += 1;
        }
        Ok(unit)
    }

    fn expect(&mut self, bytes: &[u8]) -> Result<()> {
        if self.accept(bytes) {
            Ok(())
        } else {
            Err(Syntax)
        }
    }

    fn accept(&mut self, bytes: &[u8]) -> bool {
        self.skip_space();
        self.take(bytes)
    }

    /// Goes on by one byte if it is one of these.
    fn take(&mut self, bytes: &[u8]) -> bool {
        let is_next = self.text.get(self.position).map_or(false, |next| bytes.iter().any(|byte| byte == next));
        self.position += usize::from(is_next);
        is_next
    }

    fn skip_space(&mut self) {
        while self.take(b" \t\r\n") {}
    }

    /// The next byte, 0 at the end of the text. A 0 in the text is nowhere allowed either.
    fn peek(&self) -> u8 {
        self.text.get(self.position).copied().unwrap_or_default()
    }

    /// The byte before.
    fn last(&self) -> u8 {
        self.text.get(self.position.wrapping_sub(1)).copied().unwrap_or_default()
    }

    fn rest(&self) -> &'a [u8] {
        self.text.get(self.position..).unwrap_or_default()
    }
}

/// The strings of an array.
pub fn strings(text: &[u8]) -> Result<Vec<String>> {
    let mut reader = Object::new(text);
    match reader.array()? {
        Value::Strings(strings) => reader.end().map(|()| strings),
        _ => Err(Syntax),
    }
}

/// Appends the key of an object's next member, its value to follow.
pub fn key(key: &str, json: &mut String) {
    if !json.ends_with('{') {
        json.push(',');
    }
    quote(key, json);
    json.push(':');
}

/// Appends a string.
pub fn quote(text: &str, json: &mut String) {
    json.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => json.extend(['\\', character]),
            '\0'..='\x1f' => {
                json.push_str("\\u00");
                let digit = |shift: u32| char::from_digit(character as u32 >> shift & 15, 16).unwrap_or_default();
                json.extend([digit(4), digit(0)]);
            }
            _ => json.push(character),
        }
    }
    json.push('"');
}

#[cfg(test)]
mod tests {
    use super::{key, quote, strings, Object, Syntax, Value};

    fn members(text: &[u8]) -> Result<Vec<(String, Value<'_>)>, Syntax> {
        let mut object = Object::new(text);
        let mut members = Vec::new();
        while let Some(member) = object.member()? {
            members.push(member);
        }
        Ok(members)
    }

    #[test]
    fn objects() {
        assert_eq!(members(b"{}"), Ok(Vec::new()));
        assert_eq!(members(b" {\t} \r\n"), Ok(Vec::new()));
        let text = br#" { "a" : "b" , "" : "" , "t":true,"f":false,"n":null , "a":0,"l" : [ "x" , "" ],"e":[] } "#;
        let expected = [
            ("a", Value::String("b".into())),
            ("", Value::String("".into())),
            ("t", Value::Bool(true)),
            ("f", Value::Bool(false)),
            ("n", Value::Null),
            ("a", Value::Number("0")),
            ("l", Value::Strings(vec!["x".into(), "".into()])),
            ("e", Value::Strings(Vec::new())),
        ];
        assert_eq!(members(text), Ok(expected.into_iter().map(|(key, value)| (key.to_string(), value)).collect()));
    }

    #[test]
    fn escapes() {
        let text = r#"{"\u0061\n": "\"\\\/\b\f\n\r\t\u00e9\u20AC\ud83d\ude00 é€😀\u0000"}"#;
        let value = Value::String("\"\\/\x08\x0c\n\r\té€😀 é€😀\0".into());
        assert_eq!(members(text.as_bytes()), Ok([("a\n".into(), value)].into()));
    }

    #[test]
    fn numbers() {
        for number in ["0", "-0", "7", "-12", "0.5", "10.25", "1e3", "1E+3", "1.5e-30"] {
            let text = format!("{{\"n\":{}}}", number);
            assert_eq!(members(text.as_bytes()), Ok([("n".into(), Value::Number(number))].into()));
        }
    }

    #[test]
    fn what_is_not_json() {
        #[rustfmt::skip]
        let wrong: [&[u8]; 57] = [
            b"", b" ", b"{", b"}", b"[]", b"\"a\"", b"true", b"{a:1}", b"{'a':1}", b"{\"a\"}", b"{\"a\":}",
            b"{\"a\":1,}",
            b"{,}", b"{\"a\":1 \"b\":2}", b"{\"a\":1}}", b"{\"a\":1} {}", b"{\"a\":01}", b"{\"a\":+1}", b"{\"a\":1.}",
            b"{\"a\":.5}", b"{\"a\":1e}", b"{\"a\":-}", b"{\"a\":1_0}", b"{\"a\":True}", b"{\"a\":truely}",
            b"{\"a\":\"b}",
            b"{\"a\":\"\\\"}", b"{\"a\":\"\\x\"}", b"{\"a\":\"\\u12\"}", b"{\"a\":\"\\u12g4\"}", b"{\"a\":\"\n\"}",
            b"{\"a\":\"\x00\"}", b"{\"a\":\"\\ud83d\"}", b"{\"a\":\"\\ude00\"}", b"{\"a\":\"\xff\"}",
            b"{\"a\":\"\\ud83d\\u0041\"}", b"\xef\xbb\xbf{}", b"{\"a\":1}\x00", b"{\"a\":\"b\"", b"{\"a\":tru",
            b"{// comment\n\"a\":1}", b"{\"a\":\"\\ud83d\\n\"}", b"{\"a\":\"\\u+123\"}", b"{\"a\":[1]}", b"{\"a\":{}}",
            b"{\"a\":\"\\", b"{\"a\":\"\\u", b"{\"a\":1,,\"b\":2}", b"{\"a\"", b"{{}}", b"{}}",
            b"{\"a\":[}", b"{\"a\":[,]}", b"{\"a\":[\"b\",]}", b"{\"a\":[\"b\"}", b"{\"a\":[\"b\" \"c\"]}",
            b"{\"a\":[\"b\",1]}",
        ];
        for text in wrong {
            assert_eq!(members(text), Err(Syntax), "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn a_nested_value_is_told_before_the_error() {
        for nested in ["[1]", "{}", "[}", "[,", "[[\"b\"]]", "[\"b\", null]"] {
            let text = format!("{{\"a\": {}}}", nested);
            let mut object = Object::new(text.as_bytes());
            assert_eq!(object.member(), Ok(Some(("a".into(), Value::Nested))), "{}", text);
            assert_eq!(object.member(), Err(Syntax), "{}", text);
        }
    }

    #[test]
    fn arrays_of_strings() {
        for (text, expected) in [("[]", vec![]), (" [ ] ", vec![]), (r#" ["a" , "\u0062"] "#, vec!["a", "b"])] {
            assert_eq!(strings(text.as_bytes()), Ok(expected.into_iter().map(String::from).collect()), "{}", text);
        }
        for text in ["", "[", "]", "{}", "[1]", "[\"a\",]", "[,]", "[\"a\" \"b\"]", "[\"a\"] x", "[\"a\"", "[[]]"] {
            assert_eq!(strings(text.as_bytes()), Err(Syntax), "{}", text);
        }
    }

    #[test]
    fn what_is_quoted_is_read_as_it_was() {
        let text = "\"\\/\x08\x0c\n\r\té€😀\0\x1f\x7f";
        let mut json = String::from("{");
        for name in ["", text] {
            key(name, &mut json);
            quote(text, &mut json);
        }
        json.push('}');
        let expected = ["", text].map(|key| (key.to_string(), Value::String(text.into())));
        assert_eq!(members(json.as_bytes()), Ok(expected.into()));
    }
}
