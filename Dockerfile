# The image of epsilond: built in one stage, run in another one that contains the shared libraries but not the compiler.
# Every RUN line is plain shell, so that docker/check.sh can execute this file without a container engine.
#
#   docker build -t epsilond . && docker run -p 8080:8080 -v epsilond:/var/lib/epsilond epsilond
#
# SPDX-License-Identifier: GPL-3.0-or-later
FROM debian:12-slim AS build
WORKDIR /src
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends make ca-certificates
COPY . .
RUN make -s deps-build
RUN make -s -j2 all
RUN make -s install PREFIX=/usr DESTDIR=/out
RUN strip /out/usr/bin/epsilond

FROM debian:12-slim
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends libgsl27 libgslcblas0 libquadmath0 libfftw3-double3 libopenblas0-serial liblapacke libsleef3 libsodium23 libmicrohttpd12 libgnutls30 libjansson4 libsqlite3-0 libsystemd0 libseccomp2 librabbitmq4 ca-certificates curl && rm -rf /var/lib/apt/lists/*
RUN useradd --system --user-group --home-dir /var/lib/epsilond --create-home --shell /usr/sbin/nologin epsilond
COPY --from=build /out/usr/bin/epsilond /usr/bin/epsilond
USER epsilond
WORKDIR /var/lib/epsilond
VOLUME /var/lib/epsilond
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD curl -fsS -o /dev/null http://127.0.0.1:8080/healthz
ENTRYPOINT ["/usr/bin/epsilond"]
# Others reach it only if a port is published. Beyond the host itself, give --keys instead of --insecure.
CMD ["serve", "--listen", "0.0.0.0:8080", "--insecure", "--db", "/var/lib/epsilond/epsilond.db"]
