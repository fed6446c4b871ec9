//! Sessions with every format registered.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_fermion::with_rules;

/// A session that knows DataFusion's formats and Fermion.
pub(crate) fn session(config: SessionConfig, runtime: Arc<RuntimeEnv>) -> Result<SessionContext> {
    let builder = SessionStateBuilder::new().with_config(config).with_runtime_env(runtime).with_default_features();
    let ctx = SessionContext::new_with_state(with_rules(builder).build());
    datafusion_fermion::register(&ctx)?;
    datafusion_fermion::provider::register_inspection(&ctx);
    Ok(ctx)
}
