//! ClickBench's 43 queries.

use super::{Case, Check};

/// What the last queries, of one site's pages, have in common.
const SITE: &str = r#""CounterID" = 62 AND "EventDate" >= '2013-07-01' AND "EventDate" <= '2013-07-31' AND "IsRefresh" = 0"#;

const QUERIES: [&str; 43] = [
    r#"SELECT COUNT(*) FROM hits"#,
    r#"SELECT COUNT(*) FROM hits WHERE "AdvEngineID" <> 0"#,
    r#"SELECT SUM("AdvEngineID"), COUNT(*), AVG("ResolutionWidth") FROM hits"#,
    r#"SELECT AVG("UserID") FROM hits"#,
    r#"SELECT COUNT(DISTINCT "UserID") FROM hits"#,
    r#"SELECT COUNT(DISTINCT "SearchPhrase") FROM hits"#,
    r#"SELECT MIN("EventDate"), MAX("EventDate") FROM hits"#,
    r#"SELECT "AdvEngineID", COUNT(*) FROM hits WHERE "AdvEngineID" <> 0 GROUP BY "AdvEngineID" ORDER BY COUNT(*) DESC"#,
    r#"SELECT "RegionID", COUNT(DISTINCT "UserID") AS u FROM hits GROUP BY "RegionID" ORDER BY u DESC LIMIT 10"#,
    r#"SELECT "RegionID", SUM("AdvEngineID"), COUNT(*) AS c, AVG("ResolutionWidth"), COUNT(DISTINCT "UserID") FROM hits
       GROUP BY "RegionID" ORDER BY c DESC LIMIT 10"#,
    r#"SELECT "MobilePhoneModel", COUNT(DISTINCT "UserID") AS u FROM hits WHERE "MobilePhoneModel" <> ''
       GROUP BY "MobilePhoneModel" ORDER BY u DESC LIMIT 10"#,
    r#"SELECT "MobilePhone", "MobilePhoneModel", COUNT(DISTINCT "UserID") AS u FROM hits WHERE "MobilePhoneModel" <> ''
       GROUP BY "MobilePhone", "MobilePhoneModel" ORDER BY u DESC LIMIT 10"#,
    r#"SELECT "SearchPhrase", COUNT(*) AS c FROM hits WHERE "SearchPhrase" <> '' GROUP BY "SearchPhrase" ORDER BY c DESC LIMIT 10"#,
    r#"SELECT "SearchPhrase", COUNT(DISTINCT "UserID") AS u FROM hits WHERE "SearchPhrase" <> ''
       GROUP BY "SearchPhrase" ORDER BY u DESC LIMIT 10"#,
    r#"SELECT "SearchEngineID", "SearchPhrase", COUNT(*) AS c FROM hits WHERE "SearchPhrase" <> ''
       GROUP BY "SearchEngineID", "SearchPhrase" ORDER BY c DESC LIMIT 10"#,
    r#"SELECT "UserID", COUNT(*) FROM hits GROUP BY "UserID" ORDER BY COUNT(*) DESC LIMIT 10"#,
    r#"SELECT "UserID", "SearchPhrase", COUNT(*) FROM hits GROUP BY "UserID", "SearchPhrase" ORDER BY COUNT(*) DESC LIMIT 10"#,
    r#"SELECT "UserID", "SearchPhrase", COUNT(*) FROM hits GROUP BY "UserID", "SearchPhrase" LIMIT 10"#,
    r#"SELECT "UserID", extract(minute FROM to_timestamp_seconds("EventTime")) AS m, "SearchPhrase", COUNT(*) FROM hits
       GROUP BY "UserID", m, "SearchPhrase" ORDER BY COUNT(*) DESC LIMIT 10"#,
    r#"SELECT "UserID" FROM hits WHERE "UserID" = 435090932899640449"#,
    r#"SELECT COUNT(*) FROM hits WHERE "URL" LIKE '%google%'"#,
    r#"SELECT "SearchPhrase", MIN("URL"), COUNT(*) AS c FROM hits WHERE "URL" LIKE '%google%' AND "SearchPhrase" <> ''
       GROUP BY "SearchPhrase" ORDER BY c DESC LIMIT 10"#,
    r#"SELECT "SearchPhrase", MIN("URL"), MIN("Title"), COUNT(*) AS c, COUNT(DISTINCT "UserID") FROM hits
       WHERE "Title" LIKE '%Google%' AND "URL" NOT LIKE '%.google.%' AND "SearchPhrase" <> ''
       GROUP BY "SearchPhrase" ORDER BY c DESC LIMIT 10"#,
    r#"SELECT * FROM hits WHERE "URL" LIKE '%google%' ORDER BY "EventTime" LIMIT 10"#,
    r#"SELECT "SearchPhrase" FROM hits WHERE "SearchPhrase" <> '' ORDER BY "EventTime" LIMIT 10"#,
    r#"SELECT "SearchPhrase" FROM hits WHERE "SearchPhrase" <> '' ORDER BY "SearchPhrase" LIMIT 10"#,
    r#"SELECT "SearchPhrase" FROM hits WHERE "SearchPhrase" <> '' ORDER BY "EventTime", "SearchPhrase" LIMIT 10"#,
    r#"SELECT "CounterID", AVG(length("URL")) AS l, COUNT(*) AS c FROM hits WHERE "URL" <> ''
       GROUP BY "CounterID" HAVING COUNT(*) > 100000 ORDER BY l DESC LIMIT 25"#,
    r#"SELECT REGEXP_REPLACE("Referer", '^https?://(?:www\.)?([^/]+)/.*$', '\1') AS k, AVG(length("Referer")) AS l, COUNT(*) AS c, MIN("Referer")
       FROM hits WHERE "Referer" <> '' GROUP BY k HAVING COUNT(*) > 100000 ORDER BY l DESC LIMIT 25"#,
    r#"SELECT {sums} FROM hits"#,
    r#"SELECT "SearchEngineID", "ClientIP", COUNT(*) AS c, SUM("IsRefresh"), AVG("ResolutionWidth") FROM hits WHERE "SearchPhrase" <> ''
       GROUP BY "SearchEngineID", "ClientIP" ORDER BY c DESC LIMIT 10"#,
    r#"SELECT "WatchID", "ClientIP", COUNT(*) AS c, SUM("IsRefresh"), AVG("ResolutionWidth") FROM hits WHERE "SearchPhrase" <> ''
       GROUP BY "WatchID", "ClientIP" ORDER BY c DESC LIMIT 10"#,
    r#"SELECT "WatchID", "ClientIP", COUNT(*) AS c, SUM("IsRefresh"), AVG("ResolutionWidth") FROM hits
       GROUP BY "WatchID", "ClientIP" ORDER BY c DESC LIMIT 10"#,
    r#"SELECT "URL", COUNT(*) AS c FROM hits GROUP BY "URL" ORDER BY c DESC LIMIT 10"#,
    r#"SELECT 1, "URL", COUNT(*) AS c FROM hits GROUP BY 1, "URL" ORDER BY c DESC LIMIT 10"#,
    r#"SELECT "ClientIP", "ClientIP" - 1, "ClientIP" - 2, "ClientIP" - 3, COUNT(*) AS c FROM hits
       GROUP BY "ClientIP", "ClientIP" - 1, "ClientIP" - 2, "ClientIP" - 3 ORDER BY c DESC LIMIT 10"#,
    r#"SELECT "URL", COUNT(*) AS PageViews FROM hits WHERE {site} AND "DontCountHits" = 0 AND "URL" <> ''
       GROUP BY "URL" ORDER BY PageViews DESC LIMIT 10"#,
    r#"SELECT "Title", COUNT(*) AS PageViews FROM hits WHERE {site} AND "DontCountHits" = 0 AND "Title" <> ''
       GROUP BY "Title" ORDER BY PageViews DESC LIMIT 10"#,
    r#"SELECT "URL", COUNT(*) AS PageViews FROM hits WHERE {site} AND "IsLink" <> 0 AND "IsDownload" = 0
       GROUP BY "URL" ORDER BY PageViews DESC LIMIT 10 OFFSET 1000"#,
    r#"SELECT "TraficSourceID", "SearchEngineID", "AdvEngineID",
              CASE WHEN ("SearchEngineID" = 0 AND "AdvEngineID" = 0) THEN "Referer" ELSE '' END AS Src, "URL" AS Dst, COUNT(*) AS PageViews
       FROM hits WHERE {site} GROUP BY "TraficSourceID", "SearchEngineID", "AdvEngineID", Src, Dst
       ORDER BY PageViews DESC LIMIT 10 OFFSET 1000"#,
    r#"SELECT "URLHash", "EventDate", COUNT(*) AS PageViews FROM hits
       WHERE {site} AND "TraficSourceID" IN (-1, 6) AND "RefererHash" = 3594120000172545465
       GROUP BY "URLHash", "EventDate" ORDER BY PageViews DESC LIMIT 10 OFFSET 100"#,
    r#"SELECT "WindowClientWidth", "WindowClientHeight", COUNT(*) AS PageViews FROM hits
       WHERE {site} AND "DontCountHits" = 0 AND "URLHash" = 2868770270353813622
       GROUP BY "WindowClientWidth", "WindowClientHeight" ORDER BY PageViews DESC LIMIT 10 OFFSET 10000"#,
    r#"SELECT DATE_TRUNC('minute', to_timestamp_seconds("EventTime")) AS M, COUNT(*) AS PageViews FROM hits
       WHERE "CounterID" = 62 AND "EventDate" >= '2013-07-14' AND "EventDate" <= '2013-07-15' AND "IsRefresh" = 0 AND "DontCountHits" = 0
       GROUP BY 1 ORDER BY 1 LIMIT 10 OFFSET 1000"#,
];

/// Numbered from 0, as ClickBench does.
pub(super) fn cases() -> Vec<Case> {
    // Which 10 of the rows that tie come out is anybody's choice: the check is of all the rows of which they are 10.
    let check = |sql: &str| if sql.contains(" LIMIT ") { Check::Unlimited } else { Check::Rows };
    let sql = QUERIES.map(|query| query.replace("{site}", SITE).replace("{sums}", &sums()));
    (0..).zip(sql).map(|(number, sql)| Case::new(format!("Q{number}"), check(&sql), sql)).collect()
}

fn sums() -> String {
    let sum = |added| if added == 0 { r#"SUM("ResolutionWidth")"#.to_owned() } else { format!(r#"SUM("ResolutionWidth" + {added})"#) };
    (0..90).map(sum).collect::<Vec<_>>().join(", ")
}
