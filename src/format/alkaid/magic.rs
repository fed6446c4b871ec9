//! The magic at both ends of a file: whose it is.

/// Whose format a file or stream says it is. Both are the same but for the magic and the namespace of their own keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Flavor {
    /// `ALKAID1`, and keys that begin with `ALKAID:`.
    #[default]
    Alkaid,
    /// `ARROW1`, and keys that begin with `ARROW:`.
    Arrow,
}

/// Bytes before the first message: the magic, filled up with zeros.
pub(super) const HEADER_LENGTH: usize = 8;

/// The longest magic.
pub(super) const MAGIC_MAX: usize = 7;

impl Flavor {
    const ALL: [Self; 2] = [Self::Alkaid, Self::Arrow];

    /// The magic.
    pub fn magic(self) -> &'static [u8] {
        match self {
            Self::Alkaid => b"ALKAID1",
            Self::Arrow => b"ARROW1",
        }
    }

    /// What the format's own keys of custom metadata begin with.
    pub(super) fn namespace(self) -> &'static str {
        match self {
            Self::Alkaid => "ALKAID:",
            Self::Arrow => "ARROW:",
        }
    }

    /// Of a file that begins with these bytes.
    pub(super) fn of_head(head: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|flavor| head.starts_with(flavor.magic()))
    }

    /// Of a file that ends with these bytes.
    pub(super) fn of_tail(tail: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|flavor| tail.ends_with(flavor.magic()))
    }

    /// The bytes that a file begins with.
    pub(super) fn header(self) -> [u8; HEADER_LENGTH] {
        let mut header = [0; HEADER_LENGTH];
        header.iter_mut().zip(self.magic()).for_each(|(to, from)| *to = *from);
        header
    }
}

/// A key of custom metadata as it is in memory, where all know it by Arrow's namespace.
pub(super) fn key_in_memory(key: &str) -> String {
    renamed(key, Flavor::Alkaid, Flavor::Arrow)
}

/// A key of custom metadata as it is in a file.
pub(super) fn key_in_file(key: &str, flavor: Flavor) -> String {
    renamed(key, Flavor::Arrow, flavor)
}

fn renamed(key: &str, from: Flavor, to: Flavor) -> String {
    match key.strip_prefix(from.namespace()) {
        Some(name) => format!("{}{name}", to.namespace()),
        None => key.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_change_their_namespace_and_nothing_else() {
        assert_eq!(key_in_memory("ALKAID:extension:name"), "ARROW:extension:name");
        assert_eq!(key_in_memory("ARROW:extension:name"), "ARROW:extension:name");
        assert_eq!(key_in_file("ARROW:extension:name", Flavor::Alkaid), "ALKAID:extension:name");
        assert_eq!(key_in_file("ARROW:extension:name", Flavor::Arrow), "ARROW:extension:name");
        assert_eq!(key_in_file("my:ARROW:key", Flavor::Alkaid), "my:ARROW:key");
    }

    #[test]
    fn a_file_is_known_by_either_end() {
        assert_eq!(Flavor::of_head(&Flavor::Alkaid.header()), Some(Flavor::Alkaid));
        assert_eq!(Flavor::of_head(b"ARROW1\0\0..."), Some(Flavor::Arrow));
        assert_eq!(Flavor::of_tail(b"...ALKAID1"), Some(Flavor::Alkaid));
        assert_eq!(Flavor::of_tail(b"...ALKAID"), None);
        assert_eq!(Flavor::of_head(&[0xff; 8]), None);
    }
}
