//! Descriptions of the services for reflection, made of the `.proto` files beside this one: a reader of as much of the language as they
//! use.

use prost::{Enumeration, Message};

/// The files, and what is in them.
const FILES: [(&str, &str); 2] = [
    ("inference.proto", include_str!("inference.proto")),
    ("health.proto", include_str!("health.proto")),
];

/// A file, of `google/protobuf/descriptor.proto`.
#[derive(Clone, PartialEq, Message)]
pub struct File {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub package: String,
    #[prost(message, repeated, tag = "4")]
    pub messages: Vec<Described>,
    #[prost(message, repeated, tag = "6")]
    pub services: Vec<Service>,
    #[prost(string, tag = "12")]
    pub syntax: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Described {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, repeated, tag = "2")]
    pub fields: Vec<Field>,
    #[prost(message, repeated, tag = "3")]
    pub nested: Vec<Described>,
    #[prost(message, repeated, tag = "4")]
    pub enums: Vec<Enum>,
    #[prost(message, optional, tag = "7")]
    pub options: Option<Options>,
    #[prost(message, repeated, tag = "8")]
    pub oneofs: Vec<OneOf>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Options {
    #[prost(bool, tag = "7")]
    pub map_entry: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct OneOf {
    #[prost(string, tag = "1")]
    pub name: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Field {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(int32, tag = "3")]
    pub number: i32,
    #[prost(enumeration = "Label", tag = "4")]
    pub label: i32,
    #[prost(int32, tag = "5")]
    pub kind: i32,
    #[prost(string, optional, tag = "6")]
    pub type_name: Option<String>,
    #[prost(int32, optional, tag = "9")]
    pub oneof: Option<i32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum Label {
    Unknown = 0,
    Optional = 1,
    Repeated = 3,
}

#[derive(Clone, PartialEq, Message)]
pub struct Enum {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, repeated, tag = "2")]
    pub values: Vec<EnumValue>,
}

#[derive(Clone, PartialEq, Message)]
pub struct EnumValue {
    #[prost(string, tag = "1")]
    pub name: String,
    // Zero has to be written, too.
    #[prost(int32, optional, tag = "2")]
    pub number: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Service {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, repeated, tag = "2")]
    pub methods: Vec<Method>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Method {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub input: String,
    #[prost(string, tag = "3")]
    pub output: String,
    #[prost(bool, tag = "5")]
    pub client_streams: bool,
    #[prost(bool, tag = "6")]
    pub server_streams: bool,
}

/// The types that are no messages, with their numbers.
const SCALARS: [(&str, i32); 9] = [
    ("double", 1),
    ("float", 2),
    ("int64", 3),
    ("uint64", 4),
    ("int32", 5),
    ("bool", 8),
    ("string", 9),
    ("bytes", 12),
    ("uint32", 13),
];
const MESSAGE: i32 = 11;
const ENUM: i32 = 14;

/// All files.
pub fn files() -> Vec<File> {
    let read = FILES
        .iter()
        .filter_map(|(name, text)| Reader::new(text).file(name));
    read.collect()
}

/// Reads a file. Nothing, where it is not as expected.
struct Reader<'a> {
    words: Vec<&'a str>,
    at: usize,
    package: String,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Reader<'a> {
        let mut words = Vec::new();
        for line in text.lines() {
            let line = line.split_once("//").map_or(line, |(code, _)| code);
            let mut rest = line.trim_start();
            while let Some(first) = rest.chars().next() {
                let is_name = |c: char| c.is_alphanumeric() || "._".contains(c);
                let length = match is_name(first) {
                    true => rest.find(|c| !is_name(c)).unwrap_or(rest.len()),
                    false => first.len_utf8(),
                };
                let (word, others) = rest.split_at(length);
                words.push(word);
                rest = others.trim_start();
            }
        }
        Reader {
            words,
            at: 0,
            package: String::new(),
        }
    }

    fn next(&mut self) -> Option<&'a str> {
        let word = self.words.get(self.at).copied();
        self.at += 1;
        word
    }

    fn skip(&mut self, word: &str) -> Option<()> {
        (self.next()? == word).then_some(())
    }

    fn found(&mut self, word: &str) -> bool {
        let found = self.words.get(self.at) == Some(&word);
        self.at += usize::from(found);
        found
    }

    fn file(mut self, name: &str) -> Option<File> {
        let mut file = File {
            name: name.to_owned(),
            syntax: "proto3".to_owned(),
            ..File::default()
        };
        while self.at < self.words.len() {
            match self.next()? {
                "syntax" => while self.next()? != ";" {},
                "package" => {
                    self.package = self.next()?.to_owned();
                    file.package.clone_from(&self.package);
                    self.skip(";")?;
                }
                "service" => file.services.push(self.service()?),
                "message" => file.messages.push(self.message("")?),
                _ => return None,
            }
        }
        Some(file)
    }

    fn full(&self, name: &str) -> String {
        format!(".{}.{name}", self.package)
    }

    fn service(&mut self) -> Option<Service> {
        let mut service = Service {
            name: self.next()?.to_owned(),
            methods: Vec::new(),
        };
        self.skip("{")?;
        while !self.found("}") {
            self.skip("rpc")?;
            let name = self.next()?.to_owned();
            self.skip("(")?;
            let client_streams = self.found("stream");
            let input = self.next()?;
            self.skip(")")?;
            self.skip("returns")?;
            self.skip("(")?;
            let server_streams = self.found("stream");
            let output = self.next()?;
            for word in [")", "{", "}"] {
                self.skip(word)?;
            }
            service.methods.push(Method {
                name,
                input: self.full(input),
                output: self.full(output),
                client_streams,
                server_streams,
            });
        }
        Some(service)
    }

    fn message(&mut self, outer: &str) -> Option<Described> {
        let name = self.next()?;
        let path = format!("{outer}{name}");
        let mut message = Described {
            name: name.to_owned(),
            ..Described::default()
        };
        self.skip("{")?;
        while !self.found("}") {
            if self.found("enum") {
                message.enums.push(self.list()?);
            } else if self.found("oneof") {
                let name = self.next()?.to_owned();
                let number = i32::try_from(message.oneofs.len()).ok()?;
                message.oneofs.push(OneOf { name });
                self.skip("{")?;
                while !self.found("}") {
                    let mut field = self.field(&message, &path)?;
                    field.oneof = Some(number);
                    message.fields.push(field);
                }
            } else if self.found("map") {
                for word in ["<", "string", ","] {
                    self.skip(word)?;
                }
                let value = self.next()?;
                self.skip(">")?;
                let (name, number) = self.named()?;
                let entry = entry_name(name);
                message.fields.push(Field {
                    name: name.to_owned(),
                    number,
                    label: Label::Repeated.into(),
                    kind: MESSAGE,
                    type_name: Some(self.full(&format!("{path}.{entry}"))),
                    oneof: None,
                });
                message.nested.push(Described {
                    fields: vec![
                        self.typed(&message, &path, "string", "key", 1),
                        self.typed(&message, &path, value, "value", 2),
                    ],
                    options: Some(Options { map_entry: true }),
                    name: entry,
                    ..Described::default()
                });
            } else {
                let field = self.field(&message, &path)?;
                message.fields.push(field);
            }
        }
        Some(message)
    }

    fn list(&mut self) -> Option<Enum> {
        let mut list = Enum {
            name: self.next()?.to_owned(),
            values: Vec::new(),
        };
        self.skip("{")?;
        while !self.found("}") {
            let (name, number) = self.named()?;
            list.values.push(EnumValue {
                name: name.to_owned(),
                number: Some(number),
            });
        }
        Some(list)
    }

    /// `NAME = NUMBER;`
    fn named(&mut self) -> Option<(&'a str, i32)> {
        let name = self.next()?;
        self.skip("=")?;
        let number = self.next()?.parse().ok()?;
        self.skip(";")?;
        Some((name, number))
    }

    fn field(&mut self, message: &Described, path: &str) -> Option<Field> {
        let repeated = self.found("repeated");
        let kind = self.next()?;
        let (name, number) = self.named()?;
        let mut field = self.typed(message, path, kind, name, number);
        if repeated {
            field.label = Label::Repeated.into();
        }
        Some(field)
    }

    fn typed(&self, message: &Described, path: &str, kind: &str, name: &str, number: i32) -> Field {
        let scalar = SCALARS.iter().find(|(scalar, _)| *scalar == kind);
        let is_enum = message.enums.iter().any(|list| list.name == kind);
        let (kind, type_name) = match scalar {
            Some((_, scalar)) => (*scalar, None),
            None if is_enum => (ENUM, Some(self.full(&format!("{path}.{kind}")))),
            None => (MESSAGE, Some(self.full(kind))),
        };
        Field {
            name: name.to_owned(),
            number,
            label: Label::Optional.into(),
            kind,
            type_name,
            oneof: None,
        }
    }
}

/// The name of the message that an entry of a map is.
fn entry_name(field: &str) -> String {
    let parts = field.split('_').map(|part| {
        let mut letters = part.chars();
        let first = letters.next().map(|first| first.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    });
    parts.chain(["Entry".to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_read_to_their_ends() {
        let files = files();
        assert_eq!(files.len(), FILES.len());
        for (file, (_, text)) in files.iter().zip(FILES) {
            let count = |word: &str| text.lines().filter(|line| line.contains(word)).count();
            let methods: usize = file.services.iter().map(|of| of.methods.len()).sum();
            assert_eq!(methods, count("rpc "), "{}", file.name);
            assert_eq!(file.messages.len(), count("message "), "{}", file.name);
        }
        let request = &files[0].messages;
        let request = request
            .iter()
            .find(|of| of.name == "ModelInferRequest")
            .unwrap();
        assert_eq!(request.nested[0].name, "ParametersEntry");
        assert_eq!(
            request.fields[3].type_name.as_deref(),
            Some(".inference.ModelInferRequest.ParametersEntry")
        );
        assert_eq!(request.fields.len(), 7);
    }
}
