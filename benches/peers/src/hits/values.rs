//! What a column holds: drawn from a distribution, or taken from the row.

use std::sync::Arc;

use arrow::array::{ArrayRef, Date32Array, Int16Array, Int32Array, Int64Array, StringViewArray};
use arrow::datatypes::DataType;

use super::visits::Hit;
use super::{SEED, pages};
use crate::random::{Random, mix};
use crate::words::{Script, hash, word};

/// A column of the table.
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) values: Values,
}

/// A type, and where values of it come from.
pub(super) enum Values {
    Int16(Number),
    Int32(Number),
    Int64(Number),
    Date(Number),
    Text(Text),
}

pub(super) enum Number {
    /// The row has it.
    Has(fn(&Row) -> i64),
    /// The same wherever what it belongs to is the same.
    Draw(Of, Numbers),
}

pub(super) enum Text {
    /// The row has it.
    Tell(fn(&Row) -> &str),
    /// The same wherever what it belongs to is the same, and not empty for so many of a million.
    Say(Of, u64, Texts),
}

/// What a value belongs to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Of {
    Site,
    User,
    Visit,
    Hit,
}

pub(super) enum Numbers {
    Always(i64),
    /// One of these, by weight.
    Weighted(&'static [(i64, u64)]),
    /// From the first on and below the second.
    Between(i64, i64),
    /// The lower the likelier, up to 2 to the power of this.
    Skewed(u64),
    /// Not 0 for so many of a million, and then up to 2 to the power of this.
    Seldom(u64, u64),
    /// Random numbers of so many bits, of which there are 2 to the power of the first.
    Ids(u64, u64),
}

pub(super) enum Texts {
    /// One of these, by weight.
    OneOf(&'static [(&'static str, u64)]),
    /// A word out of 2 to the power of this.
    Tag(u64),
    /// The address of a page somewhere.
    Url,
}

/// A hit with its texts.
pub(super) struct Row {
    pub(super) hit: Hit,
    pub(super) page: u64,
    /// The page of the same site from which the visitor came.
    pub(super) from: Option<u64>,
    /// Whether it was found by a search.
    pub(super) is_found: bool,
    pub(super) url: String,
    pub(super) title: String,
    pub(super) referer: String,
    pub(super) phrase: String,
    /// The number of the user's kind of mobile phone; 0 is none.
    pub(super) phone: i64,
    pub(super) phone_model: String,
}

impl Row {
    pub(super) fn of(hit: &Hit) -> Self {
        let mut random = Random::of(&[SEED, 9, hit.visit, hit.step]);
        let page = pages::page(hit.visit, hit.step);
        let (mut url, mut title) = (String::new(), String::new());
        pages::url(hit.counter, page, &mut url);
        pages::url_end(&mut random, &mut url);
        pages::title(hit.counter, page, &mut title);
        let from = hit.step.checked_sub(1).filter(|_| random.chance(900_000)).map(|step| pages::page(hit.visit, step));
        let is_found = hit.step == 0 && random.chance(660_000);
        let (mut referer, mut phrase) = (String::new(), String::new());
        match from {
            Some(from) => pages::url(hit.counter, from, &mut referer),
            None if is_found => search(&mut random, &mut referer, &mut phrase),
            None if random.chance(500_000) => pages::foreign_url(&mut random, &mut referer),
            None => {}
        }
        let (phone, phone_model) = phone(hit.user);
        Self { hit: hit.clone(), page, from, is_found, url, title, referer, phrase, phone, phone_model }
    }
}

fn search(random: &mut Random, referer: &mut String, phrase: &mut String) {
    let rank = random.skewed(0, 20);
    referer.push_str(random.weighted(&[
        ("http://yandex.ru/yandsearch?text=", 7),
        ("http://go.mail.ru/search?q=", 2),
        ("https://www.google.ru/search?q=", 1),
    ]));
    pages::phrase(rank, Script::Latin, '+', referer);
    referer.push_str(random.pick(&["", "&lr=213", "&lr=2&clid=9582", "&ie=utf-8&oe=utf-8&rls=org.mozilla:ru:official"]));
    pages::phrase(rank, Script::Cyrillic, ' ', phrase);
}

/// About 6 % of all users have one.
fn phone(user: i64) -> (i64, String) {
    let mut random = Random::of(&[SEED, 10, user.cast_unsigned()]);
    let mut model = String::new();
    if !random.chance(57_000) {
        return (0, model);
    }
    let rank = random.skewed(0, 7);
    if rank == 0 {
        model.push_str("iPad");
    } else {
        word(rank, Script::Latin, &mut model);
        model.push_str(random.pick(&["", " 5", " 10", "-S"]));
    }
    (1 + (mix(rank) % 60).cast_signed(), model)
}

impl Column {
    pub(super) fn data_type(&self) -> DataType {
        match self.values {
            Values::Int16(_) => DataType::Int16,
            Values::Int32(_) => DataType::Int32,
            Values::Int64(_) => DataType::Int64,
            Values::Date(_) => DataType::Date32,
            Values::Text(_) => DataType::Utf8View,
        }
    }

    pub(super) fn array(&self, rows: &[Row]) -> ArrayRef {
        // So that two columns of one user have nothing to do with each other.
        let salt = hash(self.name);
        match &self.values {
            Values::Int16(number) => Arc::new(Int16Array::from_iter_values(number.of_all(rows, salt))),
            Values::Int32(number) => Arc::new(Int32Array::from_iter_values(number.of_all(rows, salt))),
            Values::Int64(number) => Arc::new(Int64Array::from_iter_values(number.of_all::<i64>(rows, salt))),
            Values::Date(number) => Arc::new(Date32Array::from_iter_values(number.of_all(rows, salt))),
            Values::Text(Text::Tell(text)) => Arc::new(StringViewArray::from_iter_values(rows.iter().map(text))),
            Values::Text(Text::Say(of, share, texts)) => {
                Arc::new(StringViewArray::from_iter_values(rows.iter().map(|row| texts.draw(*share, &mut of.random(row, salt)))))
            }
        }
    }
}

impl Number {
    fn of_all<T: TryFrom<i64> + Default>(&self, rows: &[Row], salt: u64) -> impl Iterator<Item = T> {
        rows.iter().map(move |row| {
            let number = match self {
                Self::Has(number) => number(row),
                Self::Draw(of, numbers) => numbers.draw(&mut of.random(row, salt)),
            };
            T::try_from(number).unwrap_or_default()
        })
    }
}

impl Of {
    fn random(self, row: &Row, salt: u64) -> Random {
        let key = match self {
            Self::Site => row.hit.counter.cast_unsigned(),
            Self::User => row.hit.user.cast_unsigned(),
            Self::Visit => row.hit.visit,
            Self::Hit => mix(row.hit.visit) ^ row.hit.step,
        };
        Random::of(&[salt, key])
    }
}

impl Numbers {
    fn draw(&self, random: &mut Random) -> i64 {
        match *self {
            Self::Always(value) => value,
            Self::Weighted(options) => random.weighted(options),
            Self::Between(low, high) => random.between(low, high),
            Self::Skewed(bits) => random.skewed(0, bits - 1).cast_signed(),
            Self::Seldom(share, bits) if random.chance(share) => 1 + random.skewed(0, bits - 1).cast_signed(),
            Self::Seldom(..) => 0,
            Self::Ids(bits, width) => (mix(random.below(1 << bits)) >> (64 - width)).cast_signed(),
        }
    }
}

impl Texts {
    fn draw(&self, share: u64, random: &mut Random) -> String {
        let mut text = String::new();
        if random.chance(share) {
            match *self {
                Self::OneOf(options) => text.push_str(random.weighted(options)),
                Self::Tag(bits) => word(random.skewed(0, bits - 1), Script::Latin, &mut text),
                Self::Url => pages::foreign_url(random, &mut text),
            }
        }
        text
    }
}
