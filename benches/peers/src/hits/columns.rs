//! The columns, in their order, with values that are about as varied and as shared as those of the real ones.

use super::values::Number::{Draw, Has};
use super::values::Numbers::{Always, Between, Ids, Seldom, Skewed, Weighted};
use super::values::Of::{Hit, Site, User, Visit};
use super::values::Text::{Say, Tell};
use super::values::Texts::{OneOf, Tag, Url};
use super::values::Values::{Date, Int16, Int32, Int64, Text};
use super::values::{Column, Row};
use super::visits::COUNTER;
use crate::random::mix;
use crate::words::hash;

pub(super) static COLUMNS: [Column; 105] = [
    Column { name: "WatchID", values: Int64(Has(|row| (mix(mix(row.hit.visit) ^ row.hit.step) >> 1).cast_signed())) },
    Column { name: "JavaEnable", values: Int16(Draw(User, Weighted(&[(1, 72), (0, 28)]))) },
    Column { name: "Title", values: Text(Tell(|row| &row.title)) },
    Column { name: "GoodEvent", values: Int16(Draw(Hit, Always(1))) },
    Column { name: "EventTime", values: Int64(Has(|row| row.hit.time)) },
    Column { name: "EventDate", values: Date(Has(|row| row.hit.date)) },
    Column { name: "CounterID", values: Int32(Has(|row| row.hit.counter)) },
    Column { name: "ClientIP", values: Int32(Draw(User, Ids(24, 31))) },
    Column { name: "RegionID", values: Int32(Draw(User, Skewed(13))) },
    Column { name: "UserID", values: Int64(Has(|row| row.hit.user)) },
    Column { name: "CounterClass", values: Int16(Draw(Site, Weighted(&[(0, 80), (1, 14), (-1, 6)]))) },
    Column { name: "OS", values: Int16(Draw(User, Skewed(6))) },
    Column { name: "UserAgent", values: Int16(Draw(User, Skewed(6))) },
    Column { name: "URL", values: Text(Tell(|row| &row.url)) },
    Column { name: "Referer", values: Text(Tell(|row| &row.referer)) },
    Column { name: "IsRefresh", values: Int16(Draw(Hit, Weighted(&[(0, 88), (1, 12)]))) },
    Column { name: "RefererCategoryID", values: Int16(Draw(Visit, Seldom(400_000, 14))) },
    Column { name: "RefererRegionID", values: Int32(Draw(Visit, Seldom(400_000, 13))) },
    Column { name: "URLCategoryID", values: Int16(Draw(Site, Skewed(14))) },
    Column { name: "URLRegionID", values: Int32(Draw(Site, Skewed(9))) },
    Column {
        name: "ResolutionWidth",
        values: Int16(Draw(
            User,
            Weighted(&[(1366, 26), (1280, 16), (1920, 18), (1024, 8), (1600, 10), (1680, 7), (1440, 6), (2560, 1), (1638, 4), (768, 3), (0, 1)]),
        )),
    },
    Column {
        name: "ResolutionHeight",
        values: Int16(Draw(User, Weighted(&[(768, 30), (1024, 18), (1080, 18), (900, 16), (1050, 7), (800, 8), (600, 2), (0, 1)]))),
    },
    Column { name: "ResolutionDepth", values: Int16(Draw(User, Weighted(&[(32, 60), (24, 37), (16, 2), (0, 1)]))) },
    Column { name: "FlashMajor", values: Int16(Draw(User, Weighted(&[(11, 76), (10, 8), (0, 16)]))) },
    Column { name: "FlashMinor", values: Int16(Draw(User, Weighted(&[(7, 50), (8, 20), (0, 20), (1, 6), (3, 4)]))) },
    Column { name: "FlashMinor2", values: Text(Say(User, 780_000, OneOf(&[("700", 55), ("224", 20), ("800", 12), ("0", 8), ("94", 5)]))) },
    Column { name: "NetMajor", values: Int16(Draw(User, Weighted(&[(0, 55), (4, 25), (3, 12), (2, 8)]))) },
    Column { name: "NetMinor", values: Int16(Draw(User, Weighted(&[(0, 75), (5, 25)]))) },
    Column { name: "UserAgentMajor", values: Int16(Draw(User, Between(4, 31))) },
    Column {
        name: "UserAgentMinor",
        values: Text(Say(User, 850_000, OneOf(&[("0", 60), ("D\u{4}", 12), ("15", 8), ("1", 8), ("5", 6), ("25", 6)]))),
    },
    Column { name: "CookieEnable", values: Int16(Draw(User, Weighted(&[(1, 97), (0, 3)]))) },
    Column { name: "JavascriptEnable", values: Int16(Draw(User, Weighted(&[(1, 99), (0, 1)]))) },
    Column { name: "IsMobile", values: Int16(Has(|row| row.phone.signum())) },
    Column { name: "MobilePhone", values: Int16(Has(|row| row.phone)) },
    Column { name: "MobilePhoneModel", values: Text(Tell(|row| &row.phone_model)) },
    Column { name: "Params", values: Text(Say(Hit, 90_000, Tag(16))) },
    Column { name: "IPNetworkID", values: Int32(Draw(User, Skewed(21))) },
    Column { name: "TraficSourceID", values: Int16(Has(trafic_source)) },
    Column { name: "SearchEngineID", values: Int16(Has(|row| if row.is_found { 2 + i64::from(row.hit.user % 5 == 0) } else { 0 })) },
    Column { name: "SearchPhrase", values: Text(Tell(|row| &row.phrase)) },
    Column { name: "AdvEngineID", values: Int16(Draw(Hit, Seldom(6_300, 5))) },
    Column { name: "IsArtifical", values: Int16(Draw(Hit, Seldom(4_000, 1))) },
    Column { name: "WindowClientWidth", values: Int16(Draw(User, Between(700, 1920))) },
    Column { name: "WindowClientHeight", values: Int16(Draw(User, Between(400, 1000))) },
    Column { name: "ClientTimeZone", values: Int16(Draw(User, Weighted(&[(135, 50), (157, 14), (225, 8), (129, 8), (113, 8), (-1, 6), (202, 6)]))) },
    Column { name: "ClientEventTime", values: Int64(Has(|row| row.hit.time + row.hit.user.rem_euclid(13) * 600 - 3600)) },
    Column { name: "SilverlightVersion1", values: Int16(Draw(User, Weighted(&[(0, 62), (5, 34), (4, 4)]))) },
    Column { name: "SilverlightVersion2", values: Int16(Draw(User, Weighted(&[(0, 66), (1, 34)]))) },
    Column { name: "SilverlightVersion3", values: Int32(Draw(User, Weighted(&[(0, 62), (50_428, 20), (60_310, 10), (50_918, 8)]))) },
    Column { name: "SilverlightVersion4", values: Int16(Draw(User, Always(0))) },
    Column { name: "PageCharset", values: Text(Say(Site, 950_000, OneOf(&[("utf-8", 55), ("windows-1251", 42), ("koi8-r", 1), ("windows", 2)]))) },
    Column { name: "CodeVersion", values: Int32(Draw(Site, Skewed(8))) },
    Column { name: "IsLink", values: Int16(Draw(Hit, Weighted(&[(0, 93), (1, 7)]))) },
    Column { name: "IsDownload", values: Int16(Draw(Hit, Weighted(&[(0, 999), (1, 1)]))) },
    Column { name: "IsNotBounce", values: Int16(Draw(Visit, Weighted(&[(1, 75), (0, 25)]))) },
    Column { name: "FUniqID", values: Int64(Draw(User, Ids(40, 63))) },
    Column { name: "OriginalURL", values: Text(Say(Hit, 170_000, Url)) },
    Column { name: "HID", values: Int32(Draw(Hit, Ids(40, 31))) },
    Column { name: "IsOldCounter", values: Int16(Draw(Site, Seldom(30_000, 1))) },
    Column { name: "IsEvent", values: Int16(Draw(Hit, Seldom(2_000, 1))) },
    Column { name: "IsParameter", values: Int16(Draw(Hit, Seldom(20_000, 1))) },
    Column { name: "DontCountHits", values: Int16(Draw(Hit, Weighted(&[(0, 84), (1, 16)]))) },
    Column { name: "WithHash", values: Int16(Draw(Hit, Weighted(&[(0, 97), (1, 3)]))) },
    Column { name: "HitColor", values: Text(Say(Hit, 1_000_000, OneOf(&[("5", 83), ("E", 9), ("T", 5), ("g", 3)]))) },
    Column { name: "LocalEventTime", values: Int64(Has(|row| row.hit.time + row.hit.user.rem_euclid(7) * 3600)) },
    Column { name: "Age", values: Int16(Draw(User, Weighted(&[(0, 30), (16, 5), (22, 15), (26, 20), (31, 15), (39, 10), (50, 5)]))) },
    Column { name: "Sex", values: Int16(Draw(User, Weighted(&[(0, 30), (1, 33), (2, 37)]))) },
    Column { name: "Income", values: Int16(Draw(User, Weighted(&[(0, 40), (1, 10), (2, 30), (3, 20)]))) },
    Column { name: "Interests", values: Int16(Draw(User, Ids(14, 15))) },
    Column { name: "Robotness", values: Int16(Draw(User, Weighted(&[(0, 60), (1, 20), (7, 10), (13, 5), (43, 5)]))) },
    Column { name: "RemoteIP", values: Int32(Draw(User, Ids(22, 31))) },
    Column { name: "WindowName", values: Int32(Draw(Visit, Weighted(&[(-1, 60), (3_904, 10), (59_872, 10), (0, 20)]))) },
    Column { name: "OpenerName", values: Int32(Draw(Visit, Weighted(&[(-1, 80), (2_592_104, 5), (0, 15)]))) },
    Column { name: "HistoryLength", values: Int16(Has(|row| row.hit.step.cast_signed() + row.hit.user.rem_euclid(11))) },
    Column { name: "BrowserLanguage", values: Text(Say(User, 1_000_000, OneOf(&[("S\u{1}", 70), ("ru", 15), ("en", 10), ("uk", 5)]))) },
    Column { name: "BrowserCountry", values: Text(Say(User, 1_000_000, OneOf(&[("s\u{c}", 65), ("RU", 20), ("UA", 10), ("\u{e}\u{7}", 5)]))) },
    Column { name: "SocialNetwork", values: Text(Say(Hit, 300, Tag(3))) },
    Column { name: "SocialAction", values: Text(Say(Hit, 300, Tag(2))) },
    Column { name: "HTTPError", values: Int16(Draw(Hit, Seldom(900, 2))) },
    Column { name: "SendTiming", values: Int32(Draw(Hit, Seldom(250_000, 12))) },
    Column { name: "DNSTiming", values: Int32(Draw(Hit, Seldom(120_000, 10))) },
    Column { name: "ConnectTiming", values: Int32(Draw(Hit, Seldom(150_000, 11))) },
    Column { name: "ResponseStartTiming", values: Int32(Draw(Hit, Seldom(330_000, 12))) },
    Column { name: "ResponseEndTiming", values: Int32(Draw(Hit, Seldom(330_000, 12))) },
    Column { name: "FetchTiming", values: Int32(Draw(Hit, Seldom(420_000, 14))) },
    Column { name: "SocialSourceNetworkID", values: Int16(Draw(Visit, Seldom(20_000, 3))) },
    Column { name: "SocialSourcePage", values: Text(Say(Visit, 18_000, Url)) },
    Column { name: "ParamPrice", values: Int64(Draw(Hit, Seldom(3_000, 16))) },
    Column { name: "ParamOrderID", values: Text(Say(Hit, 500, Tag(14))) },
    Column { name: "ParamCurrency", values: Text(Say(Site, 1_000_000, OneOf(&[("NH\u{1c}", 1)]))) },
    Column { name: "ParamCurrencyID", values: Int16(Draw(Hit, Seldom(3_000, 2))) },
    Column { name: "OpenstatServiceName", values: Text(Say(Visit, 8_000, Tag(4))) },
    Column { name: "OpenstatCampaignID", values: Text(Say(Visit, 8_000, Tag(12))) },
    Column { name: "OpenstatAdID", values: Text(Say(Visit, 8_000, Tag(14))) },
    Column { name: "OpenstatSourceID", values: Text(Say(Visit, 8_000, Tag(10))) },
    Column { name: "UTMSource", values: Text(Say(Visit, 40_000, Tag(6))) },
    Column { name: "UTMMedium", values: Text(Say(Visit, 40_000, Tag(3))) },
    Column { name: "UTMCampaign", values: Text(Say(Visit, 35_000, Tag(12))) },
    Column { name: "UTMContent", values: Text(Say(Visit, 20_000, Tag(13))) },
    Column { name: "UTMTerm", values: Text(Say(Visit, 15_000, Tag(14))) },
    Column { name: "FromTag", values: Text(Say(Visit, 25_000, Tag(10))) },
    Column { name: "HasGCLID", values: Int16(Draw(Visit, Seldom(12_000, 1))) },
    Column { name: "RefererHash", values: Int64(Has(referer_hash)) },
    Column { name: "URLHash", values: Int64(Has(url_hash)) },
    Column { name: "CLID", values: Int32(Draw(Visit, Seldom(30_000, 18))) },
];

/// ClickBench asks for -1 and 6.
fn trafic_source(row: &Row) -> i64 {
    match row.from {
        Some(_) => -1,
        None if row.is_found => 2,
        None if row.referer.is_empty() => 0,
        None if row.hit.user.rem_euclid(4) == 0 => 6,
        None => 1,
    }
}

/// ClickBench looks for those who came from one address of a site. Here that is the site's first page.
fn referer_hash(row: &Row) -> i64 {
    match row.from {
        Some(0) if row.hit.counter == COUNTER => 3_594_120_000_172_545_465,
        _ => hash(&row.referer).cast_signed(),
    }
}

/// ClickBench looks for those who went to one address of a site.
fn url_hash(row: &Row) -> i64 {
    if row.hit.counter == COUNTER && row.page == 0 { 2_868_770_270_353_813_622 } else { hash(&row.url).cast_signed() }
}
