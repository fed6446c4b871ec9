//! Options of a statement without the name of a format before them, as in `OPTIONS ('compression' 'zstd')`. The engine takes them for those of whatever format the statement is about, but
//! datafusion-cli checks them before, and knows the formats of DataFusion only. With the format's name before them, it leaves them alone.

use std::cell::Cell;
use std::ops::Range;
use std::path::Path;

use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer, Word};
use datafusion_fermion::provider::{Alkaid, Fermion, TableFormat};

/// The engine's namespace for options of any format.
const ANY_FORMAT: &str = "format";

/// The statements with the format's name before all options of those that are about one of ours.
pub(crate) fn named(dialect: &dyn Dialect, text: &str) -> String {
    // What is no SQL is refused by whoever runs it.
    let Ok(tokens) = Tokenizer::new(dialect, text).tokenize_with_location() else { return text.to_owned() };
    let tokens: Vec<_> = tokens.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect();
    let places = Places::new(text);
    let statements = tokens.split(|token| token.token == Token::SemiColon).map(Statement);
    let edits = statements.flat_map(|statement| statement.edits(&places));
    let mut named = String::new();
    let mut end = 0;
    for (range, name) in edits {
        named.push_str(text.get(end..range.start).unwrap_or_default());
        named.push_str(&name);
        end = range.end;
    }
    named + text.get(end..).unwrap_or_default()
}

/// The tokens of a statement.
struct Statement<'a>(&'a [TokenWithSpan]);

impl Statement<'_> {
    /// What to put in the place of parts of the text.
    fn edits(&self, places: &Places<'_>) -> Vec<(Range<usize>, String)> {
        match self.format() {
            Some(format) => self.keys().filter_map(|(key, next)| named_key(key, next, format, places)).collect(),
            None => Vec::new(),
        }
    }

    /// The name of the format that it is about, if that is one of ours: it is `STORED AS` it, or `COPY` writes a file whose name says it.
    fn format(&self) -> Option<&'static str> {
        let is_copy = self.is_word(0, "COPY");
        // Of no more words before it than `CREATE OR REPLACE UNBOUNDED`.
        let is_create = self.is_word(0, "CREATE") && (1..=4).any(|at| self.is_word(at, "EXTERNAL") && self.is_word(at + 1, "TABLE"));
        if !is_copy && !is_create {
            return None;
        }
        let outside = self.outside();
        let after = |words: &[&str]| {
            let is_here = |at: usize| words.iter().zip(at..).all(|(word, at)| self.is_word(at, word));
            let at = outside.iter().copied().find(|at| is_here(*at))?;
            self.0.get(at + words.len()).map(|token| &token.token)
        };
        let format = match after(&["STORED", "AS"]) {
            Some(Token::Word(word)) => word.value.as_str(),
            Some(_) => return None,
            None if is_copy => extension(after(&["TO"])?)?,
            None => return None,
        };
        let is_of = |extensions: &[&str]| extensions.iter().any(|extension| extension.eq_ignore_ascii_case(format));
        if is_of(Fermion::EXTENSIONS) {
            return Some(Fermion::NAME);
        }
        is_of(Alkaid::EXTENSIONS).then_some(Alkaid::NAME)
    }

    /// Each first token of a key in the parentheses behind `OPTIONS`, and the one behind it.
    fn keys(&self) -> impl Iterator<Item = (&TokenWithSpan, Option<&Token>)> {
        let open = self.outside().into_iter().find(|at| self.are_options(*at)).map_or(self.0.len(), |at| at + 1);
        let within = self.0.get(open..).unwrap_or_default();
        let end = within.iter().position(|token| token.token == Token::RParen).unwrap_or(within.len());
        (1..end).filter_map(move |at| {
            let is_first = matches!(within.get(at - 1)?.token, Token::LParen | Token::Comma);
            is_first.then_some((within.get(at)?, within.get(at + 1).map(|token| &token.token)))
        })
    }

    /// Whether the word `OPTIONS` is here with its parentheses, and is not the name of a table with its columns.
    fn are_options(&self, at: usize) -> bool {
        let before = at.checked_sub(1);
        let is_name = before.is_none_or(|at| self.is_word(at, "TABLE") || self.is_word(at, "EXISTS") || self.is(at, &Token::Period));
        self.is_word(at, "OPTIONS") && self.is(at + 1, &Token::LParen) && !is_name
    }

    fn is(&self, at: usize, wanted: &Token) -> bool {
        self.0.get(at).is_some_and(|token| token.token == *wanted)
    }

    /// Where the tokens are that are not within parentheses.
    fn outside(&self) -> Vec<usize> {
        let mut depth = 0_usize;
        let mut outside = Vec::new();
        for (at, token) in self.0.iter().enumerate() {
            match token.token {
                Token::LParen => depth += 1,
                Token::RParen => depth = depth.saturating_sub(1),
                _ if depth == 0 => outside.push(at),
                _ => {}
            }
        }
        outside
    }

    fn is_word(&self, at: usize, wanted: &str) -> bool {
        let is_it =
            |token: &TokenWithSpan| matches!(&token.token, Token::Word(Word { value, quote_style: None, .. }) if value.eq_ignore_ascii_case(wanted));
        self.0.get(at).is_some_and(is_it)
    }
}

/// The extension of the file or folder that a text names.
fn extension(path: &Token) -> Option<&str> {
    let path = match path {
        Token::SingleQuotedString(path) | Token::EscapedStringLiteral(path) | Token::DoubleQuotedString(path) => path,
        Token::Word(Word { value, quote_style: Some(_), .. }) => value,
        _ => return None,
    };
    Path::new(path).extension()?.to_str()
}

/// The key with the name of the format, if it has none. Where the text is not as the token says, as in comments that are not ignored, it stays as it is.
fn named_key(key: &TokenWithSpan, next: Option<&Token>, format: &str, places: &Places<'_>) -> Option<(Range<usize>, String)> {
    let (name, quotes) = match &key.token {
        Token::SingleQuotedString(name) => (name, "'"),
        Token::EscapedStringLiteral(name) => (name, "E'"),
        Token::DoubleQuotedString(name) => (name, "\""),
        Token::Word(Word { value, quote_style: Some('"'), .. }) => (value, "\""),
        Token::Word(Word { value, quote_style: None, .. }) => (value, ""),
        _ => return None,
    };
    let is_path = matches!(key.token, Token::Word(_)) && next == Some(&Token::Period);
    let (namespace, has_more) = name.split_once('.').map_or((name.as_str(), false), |(namespace, _)| (namespace, true));
    // Of a name alone nothing is replaced.
    let (length, put) = match has_more || is_path {
        false => (0, format!("{format}.")),
        true if namespace.eq_ignore_ascii_case(ANY_FORMAT) => (namespace.len(), format.to_owned()),
        true => return None,
    };
    let start = places.byte(key.span.start)? + quotes.len();
    let stands = |what: &str, at: usize| places.text.get(at..at + what.len()).is_some_and(|text| text.eq_ignore_ascii_case(what));
    (stands(quotes, start - quotes.len()) && stands(namespace, start)).then(|| (start..start + length, put))
}

/// Where lines and columns are in a text, of which one is asked after the other.
struct Places<'a> {
    text: &'a str,
    /// What was asked last: the line, the column, and the byte.
    last: Cell<(u64, u64, usize)>,
}

impl<'a> Places<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, last: Cell::new((1, 1, 0)) }
    }

    /// Lines and columns, which are characters, are counted from one on. `None` if it is before what was asked last, or behind the end.
    fn byte(&self, location: Location) -> Option<usize> {
        let (mut line, mut column, start) = self.last.get();
        for (offset, character) in self.text.get(start..)?.char_indices() {
            if (line, column) == (location.line, location.column) {
                self.last.set((line, column, start + offset));
                return Some(start + offset);
            }
            if (line, column) > (location.line, location.column) {
                return None;
            }
            (line, column) = if character == '\n' { (line + 1, 1) } else { (line, column + 1) };
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::{GenericDialect, MySqlDialect};

    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(named(&GenericDialect {}, text), expected);
    }

    #[test]
    fn options_get_the_name_of_the_format() {
        check(
            "COPY t TO 'x.ipc' STORED AS ALKAID OPTIONS ('compression' 'zstd')",
            "COPY t TO 'x.ipc' STORED AS ALKAID OPTIONS ('alkaid.compression' 'zstd')",
        );
        check(
            "copy (SELECT 'é', ')') TO 'x.arrow' options (batch_rows 10, format.compression lz4)",
            "copy (SELECT 'é', ')') TO 'x.arrow' options (alkaid.batch_rows 10, alkaid.compression lz4)",
        );
        check(
            "COPY t TO 'x.ipc' OPTIONS (\"compression\" 'lz4', \"format\".a 1, \"format.b\" 2, \"alkaid.c\" 3)",
            "COPY t TO 'x.ipc' OPTIONS (\"alkaid.compression\" 'lz4', \"alkaid\".a 1, \"alkaid.b\" 2, \"alkaid.c\" 3)",
        );
        check("COPY options TO 'x/' STORED AS IPC OPTIONS (a 1)", "COPY options TO 'x/' STORED AS IPC OPTIONS (alkaid.a 1)");
        check(
            "CREATE OR REPLACE EXTERNAL TABLE IF NOT EXISTS options (a BIGINT) OPTIONS (b 1) STORED AS IPC LOCATION 'x'",
            "CREATE OR REPLACE EXTERNAL TABLE IF NOT EXISTS options (a BIGINT) OPTIONS (alkaid.b 1) STORED AS IPC LOCATION 'x'",
        );
        let two = "SELECT 1;\nCREATE EXTERNAL TABLE t (a INT, options INT)\nSTORED AS Fermion -- (\nLOCATION 'ü.csv'\nOPTIONS ( 'FORMAT.page_rows' '1', 'fermion.pruning' 'a.b', 'aws.region' 'x' , pruning true);";
        let expected = "SELECT 1;\nCREATE EXTERNAL TABLE t (a INT, options INT)\nSTORED AS Fermion -- (\nLOCATION 'ü.csv'\nOPTIONS ( 'fermion.page_rows' '1', 'fermion.pruning' 'a.b', 'aws.region' 'x' , fermion.pruning true);";
        check(two, expected);
    }

    #[test]
    fn a_file_may_be_named_in_many_ways() {
        check("COPY t TO 'x.ipc/' OPTIONS ('a' 1)", "COPY t TO 'x.ipc/' OPTIONS ('alkaid.a' 1)");
        check("COPY \"to\" TO 'x.ipc' OPTIONS ('a' 1)", "COPY \"to\" TO 'x.ipc' OPTIONS ('alkaid.a' 1)");
        check("COPY t TO \"x.ipc\" OPTIONS ('a' 1)", "COPY t TO \"x.ipc\" OPTIONS ('alkaid.a' 1)");
        check("COPY t TO E'x.ipc' OPTIONS (E'a' 1, 'b' 2)", "COPY t TO E'x.ipc' OPTIONS (E'alkaid.a' 1, 'alkaid.b' 2)");
        let mysql = |text: &str| named(&MySqlDialect {}, text);
        assert_eq!(mysql("COPY t TO \"x.ipc\" OPTIONS (\"a\" 1)"), "COPY t TO \"x.ipc\" OPTIONS (\"alkaid.a\" 1)");
        // What is in such a comment has other places than its tokens say.
        let hint = "COPY t TO 'x.ipc' /*! OPTIONS ('compression' 'zstd') */";
        assert_eq!(mysql(hint), hint);
    }

    #[test]
    fn many_statements_on_a_line_are_all_found() {
        let (text, expected) = ("COPY é TO 'x.ipc' OPTIONS ('a' 'b'); ", "COPY é TO 'x.ipc' OPTIONS ('alkaid.a' 'b'); ");
        check(&text.repeat(2_000), &expected.repeat(2_000));
    }

    #[test]
    fn everything_else_stays() {
        for text in [
            "",
            "COPY t TO 'x.fermion'",
            "COPY t TO 'x.csv' OPTIONS ('has_header' 'true')",
            "COPY t TO 'x.fermion' STORED AS CSV OPTIONS ('has_header' 'true')",
            "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'x.fermion' OPTIONS ('has_header' 'true')",
            "SELECT 'COPY t TO ''x.ipc'' OPTIONS (''compression'' ''zstd'')'",
            "INSERT INTO t SELECT options ('a' 'b') FROM x TO 'x.ipc'",
            "COPY t TO 'x.ipc' OPTIONS ('alkaid.compression' 'zstd'",
            "CREATE EXTERNAL TABLE options (a BIGINT) STORED AS FERMION LOCATION 'x'",
            "CREATE EXTERNAL TABLE s.options (a BIGINT, b BIGINT) STORED AS FERMION LOCATION 'x'",
            "COPY options TO 'x/' STORED AS FERMION PARTITIONED BY (a)",
            "CREATE VIEW w AS SELECT stored AS arrow FROM v WHERE options IN ('a', 'x')",
            "CREATE TABLE external AS SELECT stored AS arrow, options ('a') FROM v",
            "COPY t TO 'x.ipc' OPTIONS ('",
            "COPY t TO 'x.ipc' OPTIONS",
        ] {
            check(text, text);
        }
    }
}
