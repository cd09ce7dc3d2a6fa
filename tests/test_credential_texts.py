"""Credentials in the texts of real programs: what is masked, what stays, and what every text may rely on."""

from __future__ import annotations

import json
import random
import re
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planting import all_bytes, targets
from support import corpus_root, run_command, without_corpus

import tracekit
from tracekit.credentials import MASK, SUSPECT, is_secret_key, masked, masked_value
from tracekit.credentials.shapes import KEY_KINDS
from tracekit.errors import TracekitError
from tracekit.safety.anonymize import masked_rows

SECRET = "zQ9plantXyz77"
MASKED = (
    "Credentials(access_key='PLANT', token=None)", "{'api_key': SecretStr('PLANT')}", 'curl -sSu user:PLANT x',
    'curl -X POST https://x -u user:"PLANT"', 'curl -b "session=PLANT" x', 'twine upload -u x -p PLANT dist/a',
    'setx HF_TOKEN "PLANT"', 'npm config set //registry.npmjs.org/:_authToken PLANT',
    'docker run -e HF_TOKEN=PLANT x', "login(password = r'PLANT')", 'mysql://root:x:PLANT@db/x',
    'env[HF_TOKEN]=PLANT', 'sasl.password=PLANT',
    "python Namespace(db_password=b'PLANT')", "login(token=SecretStr('PLANT'))", '{"password": ["PLANT"]} x',
    "password=['PLANT']", 'password=("PLANT",)', "password={'a': 'PLANT'}", "password='PLANT", 'password="PLANT',
    "token=$'PLANT'", 'token=$"PLANT"', "token=u'PLANT' x=1", "token=rb'PLANT'", 'token=f"PLANT"',
    "token='ab\\'c PLANT'", "token='''x PLANT'''", 'token="""a " PLANT"""', 'password=\'abc\'"def"PLANT',
    'password=abc"de PLANT"', 'password=ab\\ PLANT', 'PASSWORD=a)bPLANT', 'login(Secret(value=PLANT))',
    'login(token=Secret(PLANT))', 'login(token=<Secret PLANT>)', 'Config { token: Secret("PLANT"), n: 1 }',
    'Config { token: Some("PLANT"), n: 1 }', 'token = std::string("PLANT")',
    'password: SecretStr = SecretStr("PLANT")', "password: str = 'PLANT'", 'token: Optional[str] = "PLANT"',
    "SecretStr('PLANT')", 'set_password("PLANT")', "os.environ['HF_TOKEN'] = 'PLANT'",
    'os.environ["HF_TOKEN"]="PLANT"', "('password', 'PLANT')", '[("user", "bob"), ("password", "PLANT")]',
    "headers=[('Authorization', 'Bearer PLANT')]", "[b'Authorization', b'Bearer PLANT']", "['--password', 'PLANT']",
    "['--password=PLANT']", "EnvVar(name='HF_TOKEN', value='PLANT')",
    'name: HF_TOKEN value: x, "HF_TOKEN", "value": "PLANT"', '<password>PLANT</password>',
    '<add key="Password" value="PLANT"/>', '<ns:token>PLANT</ns:token>', "password => 'PLANT'", 'password := "PLANT"',
    ':password => "PLANT"', "$config->password = 'PLANT';", 'password%3DPLANT', '%22password%22%3A%22PLANT%22',
    '&quot;password&quot;: &quot;PLANT&quot;', '{""password"": ""PLANT""}', '"{\\"password\\": \\"PLANT\\"}" y',
    'x "{\\\\\\"password\\\\\\": \\\\\\"PLANT\\\\\\"}" y', '{\\"password\\": \\"a\\\\\\"PLANT\\"} y',
    'Cookie: a="b"; c=PLANT', 'curl -H "Cookie: a=b; c=PLANT" https://x',
    "curl -H 'Authorization: token PLANT' https://x", 'Authorization: Digest username="Mufasa", response="PLANT"',
    'authorization: PLANT', 'Proxy-Authorization: Basic PLANT', 'X-Api-Key: PLANT', 'DB_PASS=PLANT',
    'SMTP_PASS=PLANT', 'db_pass: PLANT', 'dbPass=PLANT', 'dbpass=PLANT', 'Pwd=PLANT',
    'Server=x;Database=y;Uid=z;Pwd=PLANT;', 'UID=sa;PWD=PLANT;Encrypt=yes', 'PAT=PLANT', 'GITHUB_PAT=PLANT',
    'AZURE_DEVOPS_EXT_PAT=PLANT', '--pat PLANT', '--pass PLANT', '--pass=PLANT', '-pass PLANT', 'user=bob pass=PLANT',
    'pass=PLANT', "{'user': 'bob', 'pass': 'PLANT'}", "auth=('bob', 'PLANT')", "auth=HTTPBasicAuth('bob', 'PLANT')",
    '_auth=PLANT', '//registry.npmjs.org/:_authToken=PLANT', 'curl -u user:PLANT https://x',
    'curl -uuser:PLANT https://x', 'curl --user user:PLANT https://x', 'curl --user=user:PLANT https://x',
    'curl -s -X POST -u "user:PLANT" https://x', "/usr/bin/curl -u 'user:PLANT' https://x",
    "['curl', '-u', 'user:PLANT']", 'curl -x http://p -U me:PLANT https://x', 'sshpass -p PLANT ssh x',
    "sshpass -p'PLANT' ssh x", 'sshpass -pPLANT ssh x', 'sshpass -p "PLANT" ssh x', 'mysql -u root -pPLANT db',
    'docker login -u me -p PLANT reg', 'redis-cli -h x -a PLANT ping', 'http -a bob:PLANT https://x',
    'unzip -P PLANT a.zip', 'ldapsearch -x -w PLANT -b x', 'machine h login y password PLANT',
    'machine h.example.com\n  login y\n  password PLANT', 'default login y password PLANT',
    'machine h password PLANT login y', 'https://PLANT@host/x', 'https://PLANT:x-oauth-basic@host/x',
    'https://user:PLANT@host/x', 'postgres://u:p@PLANT@host/db', 'postgres://u:p/PLANT@host/db',
    'postgres://u:a@b/cPLANT@host:5432/db', 'postgres://u:PLANT/a@host:5432/db', 'postgres://u:p?PLANT@host/db',
    'postgres://u:p#PLANT@host/db', 'mysql+pymysql://root:a:bPLANT@localhost/x', 'redis://:PLANT@h:6379/0',
    "amqp://u:p'PLANT@h/x", 'https://u:PLANT@registry.npmjs.org/@scope/x',
    'git clone https://oauth2:PLANT@gitlab.com/a/b.git', 'https:\\/\\/user:PLANT@host\\/x',
    'https://hooks.slack.com/services/T00000000/B00000000/PLANT', 'https://hooks.slack.com/workflows/T0/A0/1/PLANT',
    'https://discord.com/api/webhooks/123456789/PLANT', 'https://discordapp.com/api/v10/webhooks/123456789/PLANT',
    'https://acme.webhook.office.com/webhookb2/a-b@c-d/IncomingWebhook/PLANT/e-f',
    'https://outlook.office.com/webhook/PLANT/x',
    'https://prod-1.westus.logic.azure.com:443/workflows/1/paths/invoke?sv=1.0&sig=PLANT',
    'https://api.telegram.org/bot123456:PLANT/sendMessage', "https://h/x?token=a'PLANT",
    'https://h/x?next=%2Flogin%3Ftoken%3DPLANT', 'https://h/x?access_token=PLANT&b=1', 'wget --password PLANT x',
    '--api-key "PLANT" x', '--api_key=PLANT,x=1', 'PASSWORD=a;b,PLANT&d X=1', 'HF_TOKEN=PLANT',
    'export HF_TOKEN=PLANT', 'setenv HF_TOKEN PLANT', '$env:HF_TOKEN = "PLANT"', 'HF_TOKEN_READ=PLANT',
    'password_prod=PLANT', 'PASSWORD_B64=PLANT', '{"env": "A=1\\nHF_TOKEN=PLANT\\nB=2', 'password:\n  - PLANT\n  - b',
    'password: |\n  PLANT', 'passwords:\n- PLANT', 'password: $PLANT', "password='$PLANT'", 'password="%PLANT"',
    'password="<PLANT"', 'password={PLANT', 'password=:PLANT', 'password==PLANT', 'Bearer PLANT', 'bearer: PLANT',
    'password = PLANT', '"password": PLANT,', "'secret': b'PLANT'", '"secrets": {"a": "PLANT"} x',
    "token=[SecretStr('PLANT')]", 'token=(SecretStr("PLANT"))', "token=tokenizer.decode('PLANT')",
    "api_key=OpenAI(api_key=SecretStr('PLANT'), x=1)", "password=await get('PLANT')", 'password=`PLANT`',
    'password = new String("PLANT")', 'pgpassword=PLANT', 'client_secret=PLANT', 'aws_secret_access_key = PLANT',
    'AccountKey=PLANT==;EndpointSuffix=x', 'SharedAccessKey=PLANT', 'passphrase "PLANT" --passphrase "PLANT"',
    '-passin pass:PLANT', 'OPENAI_KEY=PLANT', 'requirepass PLANT', 'password PLANT', 'Password("PLANT")',
    'bearer="PLANT"', 'token: PLANT', "login failed: password 'PLANT' is wrong", 'pw: secret=PLANT',
    '{"user": "bob", "pass": "PLANT"} x', '{user: bob, password: PLANT}', 'mongodb+srv://u:PLANT@c.mongodb.net/db',
    'jdbc:mysql://h/db?user=x&password=PLANT', 'DATABASE_URL=postgres://u:PLANT@h/db',
    'pip install --index-url https://__token__:PLANT@pypi.org/simple x', '--header "X-Auth-Token: PLANT"',
    'Authorization=Basic PLANT', '-H "authorization:Basic PLANT" -d x', 'WANDB_API_KEY=PLANT python x.py',
    'huggingface-cli login --token PLANT', 'ssh-keygen -N PLANT', 'rank0 token="PLANT', 'rank0 {"token":"PLANT',
    'rank0 {"token":["PLANT', 'rank0 {"a":{"token":{"x":"PLANT', '\'SMTP_PASS=\'"\'"\'PLANT\'"\'"\'\'',
    'run \'[\'"\'"\'--api-key\'"\'"\', \'"\'"\'PLANT\'"\'"\']\' x', "bash -c 'HF_TOKEN='\\''PLANT'\\'' x'",
    '\'{\'"\'"\'password\'"\'"\': \'"\'"\'PLANT\'"\'"\'}\'', 'bash -c "HF_TOKEN=\\"PLANT\\" x"',
)  # fmt: skip


STAYS = (
    "getpass(prompt='Password: ', stream=None)", "storage_key: StorageKey", "fn f(api_key: ApiKey) -> X",
    "users[access_token_row] = node",
    "image: nvcr.io/nvidia/pytorch:24.01@sha256:e3b0c44298fc1c149afbf4c8996fb924", "pkg:npm/left-pad@1.3.0",
    "unexpected token Abc12345 in JSON", "expected password: got None", "cutlass::Kernel<Token_128x64>", "d[token] = x",
    'void f(T) [with T = float; token = int]', 'void f() [with token = int]',
    'void ns::kernel<T>(T*) [with Password = unsigned char; Token = std::pair<int, float>; T = float [4]]',
    'void f() [token = int]', 'void f() [with Secret = MyType; Key = Other]', 'void f(std::string) [Token = MyToken]',
    'auto foo(Token) [with Token = std::integral_constant<int, 3>]', 'bcrypt_password=4', 'pbkdf2_password=1024',
    'scrypt_passwords=4096', 'm22000_password_loop<4>', 'md5crypt_passwd=1000', 'tokenizer.decode(x)',
    'token=tokenizer.decode(x)', 'tokenizer.decode(token=5)', 'tokenizer.decode(token=tok)', 'token = next(it)',
    'token=self.tokenizer.decode(ids[0])', 'password=getpass()', 'pass the --token flag to run',
    'use --password to set it', 'the password is wrong', 'invalid password: try again', 'token: the next word',
    'a token = 5 words', 'render_pass=shadow_map_0', 'forward_pass: 3', 'backward pass: conv2d_backward', 'pass=1',
    'pass=fusion', 'second_pass=conv2d_fused_kernel', 'optimization_pass=fuse_attention_v2', 'pattern=*.py',
    'pat=ab*c', 'path=/a/b', 'PWD=/srv/run', 'OLDPWD=/home/x', '"PWD": "/srv/run"', 'pwd: ~/x', 'compat: 3',
    'https://git@github.com/a/b.git', 'ssh://git@github.com/a/b', 'git@github.com:a/b.git', 'http://host:8080/a@b',
    'https://host/a@b', 'https://host:443/@scope/pkg', 'https://example.org/path/@user/x?part=2&key=1',
    'http://localhost:6006/#timeseries', 's3://bucket/a@b/c', 'hdfs://alice@namenode/x',
    'https://github.com/NVIDIA/apex', 'd41d8cd98f00b204e9800998ecf8427e', 'da39a3ee5e6b4b0d3255bfef95601890afd80709',
    'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855', '550e8400-e29b-41d4-a716-446655440000',
    'sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
    '/usr/lib/python3.11/site-packages/transformers/tokenization_utils.py(12): decode',
    '/opt/conda/lib/python3.10/secrets.py(12): token_bytes', 'secrets.py: token_hex',
    'torch/nn/modules/module.py(1501): _call_impl', 'aten::_scaled_dot_product_flash_attention',
    'triton_poi_fused__to_copy_add_mul_0',
    'void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::Array<char*, 3>>(int)',
    'sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x32_stage4_warpsize2x2x1_tensor16x8x16_kernel',
    'ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)', 'mysql query -p',
    'docker run -p 8080:80 image', 'psql -p 5432 -U postgres', 'curl -u is a flag', 'zip a.zip -r x',
    'curl https://x -o y', 'python train.py -p 4 -u 3', 'python -u train.py',
    'num_tokens=128 max_token=5 eos_token=</s> pad_token=<pad>', 'token_type_ids=[0, 1]', 'token_embedding: 768',
    'new_token=abc', 'author: me', 'auth: none', 'auth=oauth2', 'authenticate(user)', 'author=bob', 'keys: 3',
    'cookie_policy: strict', 'cookies=5', 'hf_transformers_modeling_llama_forward', 'sk_gemm_kernel<float, 128>',
    'task-learn-something-long-with-1-number', 'npm_package_version=1.0', 'npm_config_registry',
    'pypi-publish-action-version-1', 'SG.foo.bar', 'dapi_init', 'gl-pat', 'secret: none', 'password=None, token=None',
    "password=''", 'PASSWORD= USER=bob', 'password: null', 'token=${HF_TOKEN}', 'token=$HF_TOKEN',
    'token: ${{ secrets.TOKEN }}', 'password=%s', 'password={password}', 'password=<password>', 'password=****',
    "password='**********'", "SecretStr('**********')", 'login(token=[masked])', '{"password": "[masked]", "a": 1}',
    'basic_auth=true', 'Secret<T>', 'Token::next', 'std::token::type', 'key_averages', "'key': 'value'",
    '["user", "password", "email"]', "columns=['user', 'password', 'email']",
    'def login(user, password, token): pass', 'f(token, x)', 'token -> str', '(token: str) -> int',
    'def f(password: str, token: int = 3)', 'password: str', 'the secret of speed: fewer launches',
    'machine learning model', 'default stream', 'hook: forward_hook/x', 'https://api.example.com/webhooks/',
    '1:2:3 pass/fail', '7z x a.7z', 'bearer of news', 'JWT', 'eyJust a name.of a thing', 'if token == eos: break',
    'token != other', 'keyword = value', 'token_count: 12',
)  # fmt: skip


def test_a_value_is_masked_however_it_is_written() -> None:
    wrong = [text for text in MASKED if SECRET in masked(text.replace("PLANT", SECRET))]
    assert wrong == []


@pytest.mark.parametrize(
    "around",
    ["{}", "rank 0: {}", "{} and more x=1", "f({})", "'{}'", "[{}]"],
    ids=["alone", "behind", "before", "call", "quoted", "list"],
)
def test_a_value_is_masked_whatever_is_around_it(around: str) -> None:
    for each in MASKED:
        text = around.replace("{}", each.replace("PLANT", SECRET))
        if around == "'{}'" and "'" in each:
            text = repr(each.replace("PLANT", SECRET))
        once = masked(text)
        assert SECRET not in once, text
        assert masked(once) == once, text


def test_json_is_masked_as_it_reads_and_stays_json() -> None:
    for each in MASKED:
        text = each.replace("PLANT", SECRET)
        for value in (
            text,
            [text],
            {"a": [{"b": text}]},
            {text: 1},
            json.dumps({"c": text}),
            json.dumps([json.dumps(text)]),
        ):
            for ascii_only in (True, False):
                args = json.dumps({"External id": 1, "x": value}, ensure_ascii=ascii_only)
                once = masked(args)
                assert SECRET not in once, args
                assert json.loads(once)["External id"] == 1
                assert masked(once) == once
            assert SECRET not in str(masked_value({"x": value}))


@pytest.mark.parametrize("text", STAYS)
def test_a_text_without_a_credential_stays_byte_for_byte(text: str) -> None:
    for each in (
        text,
        f"x {text}",
        f"{text}\n{text}",
        json.dumps({"x": text, "n": 1.50}),
        json.dumps({"a": json.dumps([text])}, indent=1),
    ):
        assert masked(each) == each
    value = {"x": [text]}
    assert masked_value(value) is value


def test_arrow_finds_each_text_that_python_masks() -> None:
    texts = [text.replace("PLANT", SECRET) for text in MASKED]
    texts += [json.dumps({"x": text}) for text in texts] + [json.dumps({"x": json.dumps([text])}) for text in texts]
    found = pc.match_substring_regex(pa.array(texts), SUSPECT).to_pylist()
    assert [text for text, suspect in zip(texts, found, strict=True) if not suspect] == []
    rest = pc.match_substring_regex(pa.array(STAYS), SUSPECT).to_pylist()
    assert rest == [re.search(SUSPECT, text) is not None for text in STAYS]


@pytest.mark.parametrize(
    ("args", "want"),
    [
        ('{"password": ["P"]}', f'{{"password": ["{MASK}"]}}'),
        ('{"a":1.50,"password":"P","b" : 1e5}', f'{{"a":1.50,"password":"{MASK}","b" : 1e5}}'),
        ('{"p\\u0061ssword":"P","\\u00e9":"\\/"}', f'{{"p\\u0061ssword":"{MASK}","\\u00e9":"\\/"}}'),
        ('{"user":"bob","pass":"P"}', f'{{"user":"bob","pass":"{MASK}"}}'),
        ('{"pass":"P","user":"bob"}', f'{{"pass":"{MASK}","user":"bob"}}'),
        ('{"auth":["bob","P"]}', f'{{"auth":["bob","{MASK}"]}}'),
        ('{"name":"HF_TOKEN","value":"P"}', f'{{"name":"HF_TOKEN","value":"{MASK}"}}'),
        ('{"value":{"x":"P"},"name":"HF_TOKEN"}', f'{{"value":{{"x":"{MASK}"}},"name":"HF_TOKEN"}}'),
        ('{"h":[["Authorization","P"],["Accept","x"]]}', f'{{"h":[["Authorization","{MASK}"],["Accept","x"]]}}'),
        ('{"argv":["curl","-u","me:P","x"]}', f'{{"argv":["curl","-u","me:{MASK}","x"]}}'),
        ('{"argv":["sshpass","-pP","ssh"]}', f'{{"argv":["sshpass","-p{MASK}","ssh"]}}'),
        ('{"argv":["--password","P","--n","1"]}', f'{{"argv":["--password","{MASK}","--n","1"]}}'),
        ('{"password":123456,"token":5,"bcrypt_password":1024,"secret":true}',
         f'{{"password":"{MASK}","token":5,"bcrypt_password":1024,"secret":true}}'),
        ('{"cfg":"{\\"password\\": \\"P\\"} x"}', f'{{"cfg":"{{\\"password\\": \\"{MASK}\\"}} x"}}'),
    ],
)  # fmt: skip
def test_json_keeps_everything_but_the_value(args: str, want: str) -> None:
    args = args.replace("P", "zQ9plant77" if "pass" in args else "hunter2")
    want = want.replace("P", "hunter2")
    assert masked(args) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("login(token=SecretStr('P'), n=1)", "login(token=[masked], n=1)"),
        ("Namespace(db_password=b'P', x=1)", "Namespace(db_password=b'[masked]', x=1)"),
        ('{"password": ["P"]} x', '{"password": "[masked]"} x'),
        ("DB_PASSWORD=a;b,P&d X=1", "DB_PASSWORD=[masked] X=1"),
        ("PASSWORD= USER=bob", "PASSWORD= USER=bob"),
        ("curl -u user:P https://x", "curl -u user:[masked] https://x"),
        ("machine h login y password P port 1", "machine h login y password [masked] port 1"),
        ("postgres://u:p@ss/w0rd@host/db?x=a@b", "postgres://masked@host/db?x=a@b"),
        ("https://u:P@registry.npmjs.org/@scope/x", "https://masked@registry.npmjs.org/@scope/x"),
        ("https://hooks.slack.com/services/T0/B0/P x", "https://hooks.slack.com/services/masked x"),
        ("https://P@host/x and http://host:8080/a@b", "https://masked@host/x and http://host:8080/a@b"),
        ("Cookie: a=b; c=P\nHost: x", "Cookie: [masked]\nHost: x"),
        ("curl -H 'Cookie: a=b; c=P' https://x", "curl -H 'Cookie: [masked]' https://x"),
        ("password:\n  - P\n  - Q\nuser: bob", "password:\n  - [masked]\n  - [masked]\nuser: bob"),
    ],
)
def test_a_text_keeps_everything_but_the_value(text: str, want: str) -> None:
    assert masked(text.replace("P", "P") if "PASSWORD" in text else text.replace("P", SECRET)) == want


@pytest.mark.parametrize("kind", sorted(KEY_KINDS))
def test_each_kind_of_key_is_found_in_a_text(kind: str) -> None:
    """`is_secret_key` and the expression for texts have one list of these words."""
    for name in (f"AZURE_{kind.upper()}_KEY", f"{kind}_key", f"{kind}-key"):
        assert is_secret_key(name), name
        assert masked(f"{name}=Zm9vYmFyMTIzNDU2Nzg5MA") == f"{name}=[masked]", name


def test_keys_of_people_are_secret_and_words_of_models_are_not() -> None:
    secret = "DB_PASS SMTP_PASS db_pass dbPass dbpass --pass GITHUB_PAT PAT --pat PASSWORD_B64 HF_TOKEN_READ OPENAI_KEY"
    others = "pass pat pwd PWD OLDPWD auth forward_pass second_pass num_tokens compat_key token_count password_length"
    assert [key for key in secret.split() if not is_secret_key(key)] == []
    assert [key for key in others.split() if is_secret_key(key)] == []


def test_names_and_args_of_real_files_stay() -> None:
    files = sorted(path for path in corpus_root().glob("*/*") if path.is_file() and path.stat().st_size < 400_000)
    if not files:
        without_corpus("the corpus of real profiler files is not here")
    names: set[str] = set()
    for path in files:
        if len(names) > 2000:
            break
        try:
            events = tracekit.read(path).events
        except TracekitError:
            continue
        for column in ("name", "raw_name", "args"):
            names.update(text for text in events.column(column).unique().to_pylist() if text)
    assert len(names) > 500
    assert [text for text in names if masked(text) != text] == []


WORDS = st.sampled_from(
    [
        "token", "password", "HF_TOKEN", "DB_PASS", "api_key", "pass", "pwd", "auth", "Authorization", "Cookie",
        "--password", "curl", "-u", "sshpass", "-p", "login", "machine", "=", ":", ": ", " = ", "=>", ",", ", ", ";",
        "&", "?", "@", "://", "https://", "postgres://", "\\", '\\"', '"', "'", "`", '""', "(", ")", "[", "]", "{",
        "}", "<", ">", "$", "%", "$'", "b'", "SecretStr(", "[masked]", "masked", "Bearer ", "abc", "user:",
        "zQ9plantXyz77", "\n", " ", "- ", "| ", "/", "1", "None", "&quot;", "%22", "%3D", "AKIAIOSFODNN7EXAMPLE",
        "-----BEGIN PRIVATE KEY-----", "hooks.slack.com/services/", "sig=", "[with ", "value", "name", '{"a":1}',
        '["x"]', '{"password": "a"}', "\\n", "\\u0022", "user=bob ", "\x00", "setenv ",
    ]
)  # fmt: skip
TEXTS = st.one_of(st.lists(WORDS, max_size=14).map("".join), st.text(max_size=40))
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(TEXTS, st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(TEXTS, st.sampled_from(["password", "token", "auth", "name", "value"])), inner, max_size=3
        ),
        inner.map(json.dumps),
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(TEXTS)
def test_a_masked_text_stays_as_it_is(text: str) -> None:
    once = masked(text)
    assert masked(once) == once


@settings(deadline=None)
@given(VALUES, st.booleans())
def test_masked_json_is_json_of_the_same_form_and_stays(value: object, ascii_only: bool) -> None:
    text = json.dumps({"x": value}, ensure_ascii=ascii_only)
    once = masked(text)
    assert len(json.loads(once)) == 1
    assert masked(once) == once
    clean = masked_value(value)
    assert masked_value(clean) == clean


@settings(deadline=None)
@given(st.text(alphabet="abcdefgxyz0123456789 <>(){}[],.:=\"'/\\-+*&|\n\u00e9", max_size=80))
def test_a_text_without_the_words_of_credentials_stays(text: str) -> None:
    assert masked(text) == text
    args = json.dumps({"x": text})
    assert masked(args) == args


@pytest.mark.parametrize(
    "unit",
    [
        '"', "'", "\\", "=", "@", "[", "(", "{", '\\"', "token='", 'token="', "token=[", "token=a( ", "token ",
        "token: ", "pass=", 'pass="', "'token', ", "https://a:b@", "&token=:", "-eyJaaaaaa", "-eyJaaaaaa.", "sk-a",
        "curl -u a:", "login a password b ", "[with token = int", "password:\n - ", "&quot;", "SecretStr(",
        "Cookie: ", '"Cookie: ', '["token",', '{"token":', "\\u0074", "-----BEGIN ", "SG.aaaaaaaaaaaaaaaaaaaa",
        "hooks.slack.com/services/",
    ],
)  # fmt: skip
def test_a_hostile_text_takes_linear_time(unit: str) -> None:
    def seconds(size: int) -> float:
        text = "token " + unit * (size // len(unit))
        start = time.process_time()
        once = masked(text)
        spent = time.process_time() - start
        assert masked(once) == once
        return spent

    seconds(2_000)
    assert seconds(64_000) < max(64 * seconds(4_000), 1.0)  # 16 times the size; 256 times the time were it squared


def test_a_mask_of_an_older_version_that_left_the_value(tmp_path: Path) -> None:
    args = {"External id": 1, "cfg": f'{{"password": ["{SECRET}"]}} x', "c2": f"password=['{SECRET}']"}
    process = f"python Namespace(db_password=b'{SECRET}')"
    login = {"ph": "X", "cat": "user_annotation", "pid": 1, "tid": 1, "ts": 1, "dur": 2, "args": args}
    rows = [
        {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": process}},
        login | {"name": f"login(token=SecretStr('{SECRET}'))"},
    ]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": rows}), encoding="utf-8")
    trace = tracekit.read(path)
    (text,) = trace.events.column("args").to_pylist()
    assert json.loads(text)["c2"] == f"password={MASK}"
    for name, target in targets(tmp_path):
        tracekit.convert(path, target, to=name)
        assert SECRET.encode() not in all_bytes(target), name
    for command in (("inspect", path, "--format", "json"), ("doctor", path), ("summary", path)):
        assert SECRET not in run_command(*command, code=None).output


def main(count: int) -> None:
    """Print how many of random texts lose their form, or change when they are masked again."""
    rng = random.Random(count)
    words: list[str] = list(WORDS.elements)  # type: ignore[attr-defined]
    broken = changed = 0
    for number in range(count):
        text = "".join(rng.choice(words) for _ in range(rng.randint(1, 14)))
        args = json.dumps(
            {"External id": number, rng.choice(["x", "password", text]): rng.choice([text, [text], {"a": text}])}
        )
        once, plain = masked(args), masked(text)
        try:
            json.loads(once)
        except ValueError:
            broken += 1
        changed += masked(once) != once or masked(plain) != plain
    print(f"{count:,} random texts: breaks: {broken}, not idempotent: {changed}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60_000)


@given(st.lists(st.lists(st.sampled_from([None, None, None, "a", "b", f"token={SECRET}"]), max_size=9), max_size=4))
def test_what_is_known_of_earlier_batches_hides_no_credential(batches: list[list[str | None]]) -> None:
    """Texts of dictionaries, and of columns of mostly nulls, are looked at once for all batches of an input."""
    clean: set[str | None] = set()
    for texts in batches:
        column = pa.array(texts, pa.string())
        batch = pa.record_batch({"args": column, "name": column.dictionary_encode()})
        expected = [None if text is None else masked(text) for text in texts]
        found = masked_rows(batch, None, clean)
        assert [found.column(name).to_pylist() for name in ("args", "name")] == [expected, expected]
    assert not any(SECRET in text for text in clean if text is not None)
