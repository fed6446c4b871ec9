"""Tables in a store that speaks S3: moto, a server for tests.

    tests/stores/s3
"""

import logging

import boto3
from moto.server import ThreadedMotoServer

import tables


def main():
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    store = boto3.client("s3", endpoint_url=endpoint, aws_access_key_id="test", aws_secret_access_key="test", region_name="us-east-1")
    store.create_bucket(Bucket="lake")
    access = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
    shell = tables.Shell({**access, "AWS_ENDPOINT": endpoint, "AWS_ALLOW_HTTP": "true"})
    try:
        tables.check(shell, "s3://lake")
        whole = store.get_object(Bucket="lake", Key="again.fermion")["Body"].read()
        store.put_object(Bucket="lake", Key="cut.fermion", Body=whole[:-1])
        tables.missing(shell, "s3://lake", ["cut", "none"])
    finally:
        server.stop()


if __name__ == "__main__":
    main()
